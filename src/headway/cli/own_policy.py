"""A user's own policy from a file, `mine.py:function`. What it does wrong is told in a sentence that names the line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.cycle.sound import PolicyError, plain, raised, told, unsound


@dataclass(frozen=True)
class OwnPolicy:
    """The user's policy, and the name and file to blame. It explains itself where the user's policy does."""

    policy: Policy
    name: str
    file: str

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.policy, attribute)

    def __call__(self, snapshot: Snapshot) -> Plan:
        try:
            plan = self.policy(snapshot)
        except (Exception, SystemExit) as error:
            raise raised(self.name, error, self.file) from error
        why = unsound(plan)
        if why:
            raise PolicyError(self.name, f"{self._where()}: {why}")
        return plain(plan)

    def _where(self) -> str:
        function = self.policy if hasattr(self.policy, "__code__") else type(self.policy).__call__
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
        return f"{Path(self.file).name}, line {line}"


def load_own(name: str, settings: Callable[[dict[str, Any]], dict[str, Any]]) -> Policy:
    """The policy that `name` names. `settings` takes the fields with their defaults and returns the chosen values."""
    path, _, attribute = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("own_policy", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UserError(f"--policy {name}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user sees in one sentence what their file raises
        raise UserError(f"--policy {name}: {path} cannot be loaded: {told(error)}") from error
    policy = getattr(module, attribute, None)
    if not callable(policy):
        raise UserError(f"--policy {name}: {path} has no function {attribute!r}")
    fields = getattr(policy, "__dataclass_fields__", {})
    known = {key: field.default for key, field in fields.items()} if isinstance(policy, type) else {}
    values = settings(known)
    try:
        chosen: Policy = policy(**values) if isinstance(policy, type) else policy
    except Exception as error:
        raise raised(name, error, str(module.__file__)) from error
    if not callable(chosen):
        raise UserError(f"--policy {name}: {attribute} has no method __call__")
    return OwnPolicy(chosen, name, str(module.__file__))
