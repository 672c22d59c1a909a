"""The cluster's pod template: a file with a pod template, and what jobs may change of it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from headway.cli.wiring import warn
from headway.core.errors import UserError
from headway.rendezvous import MASTER_PORT

if TYPE_CHECKING:
    from headway.kube.settings import PodDefaults

LISTS = ("fixed", "allowed")


def pod_defaults(path: Path | None, *, checkpoints: str, progress: str, master_port: int = MASTER_PORT) -> PodDefaults:
    """What all pods have in common, by the file and the options. Raises UserError."""
    from headway.kube.intake.template_rules import TemplateRules
    from headway.kube.pods.body import TemplateError, check_template
    from headway.kube.pods.checkpoints import find_volume
    from headway.kube.pods.replica import MAIN
    from headway.kube.settings import PodDefaults

    if checkpoints and not checkpoints.startswith("/"):
        raise UserError(f"--checkpoints {checkpoints}: must be an absolute path in pods")
    given = {} if path is None else _read(path)
    template = {key: value for key, value in given.items() if key not in LISTS}
    try:
        check_template(template)
        volume = find_volume(template, MAIN, checkpoints)
    except TemplateError as error:
        raise UserError(f"{path}: field {error}") from error
    except ValueError as error:
        raise UserError(f"{path}: field spec: --checkpoints {checkpoints}: {error}") from error
    if checkpoints and volume is None:
        warn(
            [f"--checkpoints {checkpoints}: the template mounts no volume there; checkpoints end with their container"]
        )
    elif volume is not None and PurePosixPath(volume.mounted) != PurePosixPath(checkpoints):
        warn([f"the volume at {volume.mounted} has the checkpoints: a pod sees only its job's folder of it"])
    fixed = given.get("fixed") or []
    if volume is not None:
        fixed = [*fixed, f"spec.volumes.{volume.name}"]
    rules = TemplateRules(fixed=tuple(fixed), allowed=tuple(given["allowed"]) if "allowed" in given else None)
    return PodDefaults(
        template=template,
        progress=progress,
        checkpoints=checkpoints,
        volume=volume,
        rules=rules,
        master_port=master_port,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        template = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not valid YAML") from error
    if not isinstance(template, dict) or not isinstance(template.get("spec", {}), dict):
        raise UserError(f"{path}: field spec: must be a map; a pod template has metadata and spec")
    unknown = set(template) - {"metadata", "spec", *LISTS}
    if unknown:
        raise UserError(
            f"{path}: field {min(map(str, unknown))}: is unknown; a pod template has metadata and spec, "
            "and here also fixed and allowed"
        )
    for name in LISTS:
        fields = template.get(name, [])
        if not isinstance(fields, list) or not all(_is_field(field) for field in fields):
            raise UserError(
                f"{path}: field {name}: must be a list of fields such as spec.containers.main.image or spec.volumes"
            )
    return template


def _is_field(text: object) -> bool:
    return isinstance(text, str) and text.partition(".")[0] in ("metadata", "spec") and all(text.split("."))
