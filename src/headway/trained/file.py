"""A trained policy is one file: numpy arrays, and a JSON text that says what they are. No framework is needed.

The text names the features, the settings that it turns, what it was trained on (with a hash), its scores and
the format's version. A file that does not fit this Headway is refused in one sentence.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from headway.beliefs.whole_file import read_whole, write_whole
from headway.core.errors import UserError
from headway.core.policy import Policy
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME
from headway.policies.learned import Learned
from headway.policies.network import SettingsNetwork
from headway.policies.ranges import FORMER_NAMES
from headway.policies.registry import POLICIES
from headway.policies.value.outlook import FEATURES

FORMAT = "headway trained policy"
VERSION = 1
MOST_BYTES = 4 << 20
SHIPPED = Path(__file__).with_name("shipped.npz")
"""The one that comes with Headway."""
ARRAYS = ("middle", "scale", "low", "high", "inner", "inner_bias", "outer", "outer_bias")

NO_SETTINGS: Mapping[str, Any] = {}


class TrainedFields(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    features: list[str]
    knobs: list[str]
    headway: str = ""
    trained_on: dict[str, Any] = {}
    """Tasks with their digest, the seed and the budget."""
    scores: dict[str, float | int | None] = {}


@dataclass(frozen=True, slots=True)
class TrainedPolicy:
    network: SettingsNetwork
    trained_on: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float | int | None] = field(default_factory=dict)
    name: str = ""

    def policy(self, settings: Mapping[str, Any] = NO_SETTINGS) -> Learned:
        """`settings`: of headway; those that are given are not turned."""
        return Learned(
            network=self.network, name=self.name, base=Headway(**settings), given=frozenset(settings)
        )  # fmt: skip


def write_trained(path: Path, trained: TrainedPolicy, headway: str = "") -> None:
    """Writes the file in one step. The same network gives the same bytes."""
    network = trained.network
    about = TrainedFields(
        FORMAT, VERSION, list(FEATURES), list(network.knobs), headway, trained.trained_on, trained.scores
    )
    text = np.frombuffer(msgspec.json.format(msgspec.json.encode(about), indent=1), np.uint8)
    content = io.BytesIO()
    np.savez(content, about=text, **{name: getattr(network, name) for name in ARRAYS})
    write_whole(path, content.getvalue())


def read_trained(path: Path) -> TrainedPolicy:
    """Raises a UserError with one sentence where the file does not fit."""
    raw = read_whole(path, MOST_BYTES, "a trained policy")
    arrays = _arrays(path, raw)
    try:
        about = msgspec.json.decode(arrays.pop("about").tobytes(), type=TrainedFields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: field about: {why}; make a file with `headway learn train`") from error
    try:
        network = _network(about, arrays)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    name = f"{path.name} {hashlib.sha256(raw).hexdigest()[:12]}"
    return TrainedPolicy(network, about.trained_on, about.scores, name)


@cache
def shipped() -> Learned:
    return read_trained(SHIPPED).policy()


def policy_named(name: str) -> Policy:
    """As commands take it: `learned` is the one that comes with Headway, all others have their default settings."""
    return shipped() if name == "learned" else POLICIES[name]()


# ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────


def _arrays(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            if sum(one.file_size for one in packed.infolist()) > MOST_BYTES:
                raise UserError(f"{path}: unpacks to more than {MOST_BYTES >> 20} MiB; this is not a trained policy")
        with np.load(io.BytesIO(raw), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: is not a trained policy; make one with `headway learn train`") from error
    missing = next((name for name in ("about", *ARRAYS) if name not in arrays), None)
    if missing is not None:
        raise UserError(f"{path}: field {missing}: is missing; make a file with `headway learn train`")
    return arrays


def _network(about: TrainedFields, arrays: dict[str, Any]) -> SettingsNetwork:
    _check(
        (about.format, about.version) == (FORMAT, VERSION),
        f"field version: is {about.format!r} version {about.version}; this headway reads {FORMAT!r} version {VERSION}",
    )
    _check(
        about.features == list(FEATURES),
        f"field features: are {', '.join(about.features)[:200]}; this headway has {', '.join(FEATURES)}",
    )
    knobs = [FORMER_NAMES.get(name, name) for name in about.knobs]
    unknown = next((name for name in knobs if name not in BY_NAME), None)
    _check(unknown is None, f"field knobs: headway has no setting {str(unknown)[:80]!r} to turn")
    _check(len(set(knobs)) == len(knobs), "field knobs: a setting is named twice")
    hidden, width = len(arrays["inner"]) if arrays["inner"].ndim else 0, len(FEATURES)
    shapes = {
        "inner": (hidden, width), "inner_bias": (hidden,), "outer": (len(knobs), hidden),
        "outer_bias": (len(knobs),),
    }  # fmt: skip
    for name in ARRAYS:
        wanted = shapes.get(name, (width,))
        _check(arrays[name].shape == wanted, f"field {name}: has the shape {arrays[name].shape}, not {wanted}")
        _check(arrays[name].dtype == np.float64, f"field {name}: must be of float64")
        _check(bool(np.isfinite(arrays[name]).all()), f"field {name}: has a number that is not finite")
    _check(bool((arrays["scale"] > 0).all()), "field scale: must be above 0")
    _check(bool((arrays["low"] <= arrays["high"]).all()), "field low: must not be above high")
    return SettingsNetwork(tuple(knobs), **{name: arrays[name] for name in ARRAYS})


def _check(good: bool, why: str) -> None:
    if not good:
        raise ValueError(why)
