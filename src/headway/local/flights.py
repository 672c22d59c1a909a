"""How a decision is carried out on this machine, step by step. Each is a generator that yields while it must wait.

What a generator returns is where the job is when the flight has ended: its state, its placement, and, where it did not
go as planned, a sentence that says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from headway.core.gang import GRACE_SECONDS, Life, ReplicaKey, to_ask
from headway.core.placement import Placement
from headway.core.plan import Because
from headway.core.states import State
from headway.local.gang import Gang
from headway.local.replica import Replica
from headway.progress_server import ProgressServer


@dataclass(frozen=True, slots=True)
class Landing:
    state: State
    placement: Placement | None
    why: str = ""
    saved: bool = False
    refused: bool = False
    """A start that did not come about."""


Flight = Generator[None, None, Landing]
Steps = Generator[None, None, str]
"""Some steps of a flight; returns why it cannot go on, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds until something is given up."""

    start: float = 60.0
    speak: float = 5.0
    """For a replica that says that it can save; some say so only when their model is built."""
    save: float = 30.0
    stop: float = 20.0
    grace: float = GRACE_SECONDS
    """For the other replicas to end once the job has succeeded."""


@dataclass(frozen=True, slots=True)
class Pilot:
    clock: Callable[[], float]
    server: ProgressServer
    patience: Patience

    def start(self, gang: Gang, placement: Placement) -> Flight:
        why = yield from self._bring_up(gang, placement)
        if why:
            yield from self._take_down(gang)
            return Landing(State.WAITING, None, why, refused=True)
        return Landing(State.RUNNING, placement)

    def scale(self, gang: Gang, old: Placement, target: Placement) -> Flight:
        for role, nodes in enumerate(target.nodes):
            extra = gang.leftover(role, nodes)
            yield from self._dismiss(extra)
            here = Counter(replica.node for replica in gang.of(role))
            more = tuple((Counter(nodes) - here).elements())
            if not more:
                continue
            fresh = gang.launch(role, more, gang.share(target, role), self._counts(gang, target), self.clock())
            why = yield from self._wait_up(gang, fresh)
            if why:
                yield from self._dismiss(fresh)
                gang.broken = None  # whether the rest of the gang is well is judged as ever
                return Landing(State.RUNNING, old, f"it was not scaled: {why}")
        self.tell_size(gang, target)
        return Landing(State.RUNNING, target)

    def resize(self, gang: Gang, old: Placement, target: Placement) -> Flight:
        shares = [gang.share(target, role) for role in range(len(gang.job.roles))]
        yield
        for replica in gang.alive():
            held, memory = replica.group.held_memory(), shares[replica.role].memory
            if memory and held >= memory:
                name = gang.name(replica)
                return Landing(
                    State.RUNNING, old, f"it was not resized: {name} holds {held} MiB, not below {memory} MiB"
                )
        for replica in gang.alive():
            replica.give(shares[replica.role])
        self.tell_size(gang, target)
        return Landing(State.RUNNING, target)

    def move(self, gang: Gang, old: Placement, target: Placement) -> Flight:
        why = yield from self._save(gang)
        if why:
            return Landing(State.RUNNING, old, f"it was not moved: {why}")
        yield from self._take_down(gang)
        gang.begin_attempt(gang.attempt + 1)
        why = yield from self._bring_up(gang, target)
        if why:
            yield from self._take_down(gang)
            return Landing(
                State.WAITING,
                None,
                f"it was saved and stopped, but did not start elsewhere: {why}",
                saved=True,
                refused=True,
            )
        return Landing(State.RUNNING, target, "", True)

    def stop(self, gang: Gang, old: Placement, because: Because) -> Flight:
        cancelled = because is Because.CANCELLED
        if not cancelled:
            why = yield from self._save(gang)
            if why:
                return Landing(State.RUNNING, old, f"it was not stopped: {why}")
        yield from self._take_down(gang)
        return Landing(State.CANCELLED if cancelled else State.WAITING, None, "", not cancelled)

    def take_down(self, gang: Gang, landing: Landing) -> Flight:
        """After a failure: the rest of the gang goes too."""
        yield from self._take_down(gang)
        return landing

    def tell_size(self, gang: Gang, placement: Placement) -> None:
        cpu = {role.name: gang.share(placement, number).cpu / 1000 for number, role in enumerate(gang.job.roles)}
        self.server.resize(gang.job.id, gang.counts(), cpu)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────

    def _bring_up(self, gang: Gang, placement: Placement) -> Steps:
        """Role after role; a later one is started when the earlier ones are up."""
        counts = self._counts(gang, placement)
        for role in gang.shape.order:
            fresh = gang.launch(role, placement.nodes[role], gang.share(placement, role), counts, self.clock())
            why = yield from self._wait_up(gang, fresh)
            if why:
                return why
        return ""

    def _wait_up(self, gang: Gang, fresh: list[Replica]) -> Steps:
        give_up = self.clock() + self.patience.start
        while not gang.up(fresh, self.clock()):
            verdict = gang.verdict(self.clock(), self.patience.grace, starting=True)
            if verdict.life in (Life.FAILED, Life.LOST):
                gang.broken = verdict
                return verdict.why
            if self.clock() > give_up:
                return f"a replica was not up after {self.patience.start:g} seconds"
            yield
        return ""

    def _save(self, gang: Gang) -> Steps:
        gang.saves = gang.saves.next()
        give_up = self.clock() + self.patience.speak
        while not (asked := to_ask(gang.savers, self._can_save(gang), gang.present())):
            if self.clock() > give_up or not gang.alive():
                return "none of its replicas can save" if not gang.savers else "not all that can save are connected"
            yield
        gang.saves = replace(gang.saves, asked=asked)
        self.server.save(gang.job.id, gang.saves.request)
        give_up = self.clock() + self.patience.save
        while not gang.saves.is_complete:
            if gang.saves.failed:
                return f"it could not save: {gang.saves.failed}"
            if not gang.alive():
                return "it ended before it had saved"
            if self.clock() > give_up:
                return f"it did not save within {self.patience.save:g} seconds"
            yield
        return ""

    def _can_save(self, gang: Gang) -> set[ReplicaKey]:
        connected = self.server.connected(gang.job.id)
        return {(who.role, who.index) for who in connected if who.can_save and who.attempt == gang.attempt}

    def _take_down(self, gang: Gang) -> Generator[None, None, None]:
        yield from self._dismiss(gang.replicas)

    def _dismiss(self, replicas: list[Replica]) -> Generator[None, None, None]:
        """Ended for certain when this returns: the shim kills what does not go by itself."""
        for replica in replicas:
            replica.tell_to_stop()
        give_up = self.clock() + self.patience.stop
        while any(replica.poll() is None for replica in replicas):
            if self.clock() > give_up:
                for replica in replicas:
                    replica.group.remove()
                    replica.process.kill()
            yield

    def _counts(self, gang: Gang, placement: Placement) -> dict[str, int]:
        return {role.name: len(nodes) for role, nodes in zip(gang.job.roles, placement.nodes, strict=True)}
