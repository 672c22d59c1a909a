"""How a decision is carried out on this machine, step by step. Each flight is a generator that yields while it waits.

Example: a move asks the job to save, waits for the answers, stops the replicas, and starts them on other nodes. The
generator returns a Landing: the state and placement of the job at the end, and why, if it did not go as planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass

from headway.core.gang import GangState, GangVerdict, ReplicaKey, back_off_seconds, to_ask
from headway.core.placement import Placement
from headway.core.plan import Because
from headway.core.restarts import RestartLimits, may_retry, retry_note
from headway.core.states import State
from headway.local.gang import Gang, LaunchError
from headway.local.replica import LocalReplica
from headway.local.settings import LocalTimeouts
from headway.progress_server import ProgressServer


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a job is when its flight has ended."""

    state: State
    placement: Placement | None
    why: str = ""
    """Why it did not go as planned."""
    saved: bool = False
    """The job goes on from a checkpoint that was made in this flight."""
    refused: bool = False
    """The job was to start and did not."""


FlightSteps = Generator[None, None, Landing]
PartialSteps = Generator[None, None, str]
"""Some steps of a flight; returns why the flight cannot go on, or an empty string."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """Makes the flights: one method for each kind of decision."""

    clock: Callable[[], float]
    server: ProgressServer
    timeouts: LocalTimeouts
    restart_limits: RestartLimits

    def start(self, gang: Gang, placement: Placement) -> FlightSteps:
        why = yield from self._bring_up(gang, placement)
        if why:
            yield from self._take_down(gang)
            return Landing(State.WAITING, None, why, refused=True)
        return Landing(State.RUNNING, placement)

    def scale(self, gang: Gang, old: Placement, target: Placement) -> FlightSteps:
        if gang.job.saves_itself:
            return (yield from self._start_anew(gang, target))
        for role, nodes in enumerate(target.nodes):
            extra = gang.leftover(role, nodes)
            yield from self._dismiss(extra)
            here = Counter(replica.node for replica in gang.of(role))
            more = tuple((Counter(nodes) - here).elements())
            if not more:
                continue
            before = set(gang.replicas)
            why = yield from self._launch(gang, role, more, target)
            if why:
                yield from self._dismiss([replica for replica in gang.replicas if replica not in before])
                gang.broken = None  # only the new replicas failed; the next cycle judges the old ones
                return Landing(State.RUNNING, old, f"it was not scaled: {why}")
        self._tell_size(gang, target)
        return Landing(State.RUNNING, target)

    def _start_anew(self, gang: Gang, target: Placement) -> FlightSteps:
        """A job that saves by itself cannot be told a new size: it ends, and starts with it from its checkpoint."""
        yield from self._take_down(gang)
        gang.begin_attempt(gang.attempt + 1)
        why = yield from self._bring_up(gang, target)
        if why:
            yield from self._take_down(gang)
            return Landing(State.WAITING, None, f"it did not start with its new size: {why}", saved=True, refused=True)
        return Landing(State.RUNNING, target, saved=True)

    def resize(self, gang: Gang, old: Placement, target: Placement) -> FlightSteps:
        limits = [gang.limits_of(target, role) for role in range(len(gang.job.roles))]
        yield
        for replica in gang.alive():
            held, memory = replica.group.held_memory(), limits[replica.role].memory
            if memory and held >= memory:
                name = gang.name(replica)
                return Landing(
                    State.RUNNING, old, f"it was not resized: {name} holds {held} MiB, not below {memory} MiB"
                )
        for replica in gang.alive():
            try:
                replica.set_limits(limits[replica.role])
            except OSError as error:
                return Landing(State.RUNNING, old, f"it was not resized: {gang.name(replica)}: {error.strerror}")
        self._tell_size(gang, target)
        return Landing(State.RUNNING, target)

    def move(self, gang: Gang, old: Placement, target: Placement) -> FlightSteps:
        why = yield from self._save(gang)
        if why:
            return Landing(State.RUNNING, old, f"it was not moved: {why}")
        yield from self._take_down(gang)
        gang.begin_attempt(gang.attempt + 1)
        why = yield from self._bring_up(gang, target)
        if why:
            yield from self._take_down(gang)
            why = f"it was saved and stopped, but did not start elsewhere: {why}"
            return Landing(State.WAITING, None, why, saved=True, refused=True)
        return Landing(State.RUNNING, target, saved=True)

    def stop(self, gang: Gang, old: Placement, because: Because) -> FlightSteps:
        if because is Because.CANCELLED:
            yield from self._take_down(gang)
            return Landing(State.CANCELLED, None)
        why = yield from self._save(gang)
        if why and not because.is_final:
            return Landing(State.RUNNING, old, f"it was not stopped: {why}")
        yield from self._take_down(gang)
        lost = f"another queue reclaimed what it borrowed: {why}; it goes on from its last checkpoint" if why else ""
        return Landing(State.WAITING, None, lost, saved=not why)

    def take_down(self, gang: Gang, landing: Landing) -> FlightSteps:
        """Stop what is left of a gang that is done, failed or lost; the job then is as `landing` says."""
        yield from self._take_down(gang)
        return landing

    # ── what becomes of a gang that broke ───────────────────────────────────────────────────────────────

    def after_break(self, gang: Gang, verdict: GangVerdict) -> Landing:
        """A failed gang fails the job, unless a retry is left. A lost one starts again, if not too often."""
        if verdict.state is GangState.FAILED:
            gang.failures += 1
            job = gang.job
            again = may_retry(job.retry_on, job.retry_not_on, gang.exit_code(), gang.last_output())
            if gang.failures > job.retries or not again:
                return Landing(State.FAILED, None, verdict.why)
            gang.start_at = self.clock() + back_off_seconds(gang.failures)
            return Landing(State.WAITING, None, f"{verdict.why}; {retry_note(gang.failures, job.retries)}")
        limits = self.restart_limits.of(gang.job.restarts)
        gang.losses = gang.losses.another(self.clock(), gang.furthest, limits)
        if gang.losses.too_many(limits):
            return Landing(State.FAILED, None, gang.losses.sentence(verdict.why))
        return Landing(State.WAITING, None, f"{verdict.why}; it starts again")

    def after_refusal(self, gang: Gang, landing: Landing) -> Landing:
        """A refused start is tried again after a pause that grows. Too many in a row fail the job."""
        gang.refusals += 1
        gang.start_at = self.clock() + back_off_seconds(gang.refusals)
        if gang.refusals <= self.restart_limits.of(gang.job.restarts).refusals:
            return landing
        return Landing(State.FAILED, None, f"refused {gang.refusals} times in a row, last: {landing.why}")

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────

    def _bring_up(self, gang: Gang, placement: Placement) -> PartialSteps:
        """Start one role after the other; the next one starts when the earlier ones are up."""
        for role in gang.shape.order:
            why = yield from self._launch(gang, role, placement.nodes[role], placement)
            if why:
                return why
        return ""

    def _launch(self, gang: Gang, role: int, nodes: tuple[int, ...], placement: Placement) -> PartialSteps:
        """Launch replicas of one role and wait until they are up. What cannot be launched for now is tried again."""
        limits, counts = gang.limits_of(placement, role), self._counts(gang, placement)
        try:
            fresh = gang.launch(role, nodes, limits, counts, self.clock())
        except LaunchError as error:
            gang.broken = None if error.for_now else GangVerdict(GangState.FAILED, str(error))
            return str(error)
        return (yield from self._wait_up(gang, fresh))

    def _wait_up(self, gang: Gang, fresh: list[LocalReplica]) -> PartialSteps:
        give_up = self.clock() + self.timeouts.start
        while not gang.up(fresh, self.clock()):
            verdict = gang.verdict(self.clock(), self.timeouts.grace, starting=True)
            if verdict.state in (GangState.FAILED, GangState.LOST):
                gang.broken = verdict
                return verdict.why
            if self.clock() > give_up:
                return f"a replica was not up after {self.timeouts.start:g} seconds"
            yield
        return ""

    def _save(self, gang: Gang) -> PartialSteps:
        if gang.job.saves_itself:
            return ""  # the signal to end is its request
        give_up = self.clock() + self.timeouts.speak
        while not self.ask_to_save(gang):
            if self.clock() > give_up or not gang.alive():
                return "none of its replicas can save" if not gang.savers else "not all that can save are connected"
            yield
        give_up = self.clock() + self.timeouts.save
        while not gang.saves.is_complete:
            if gang.saves.failed:
                return f"it could not save: {gang.saves.failed}"
            if not gang.alive():
                return "it ended before it had saved"
            if self.clock() > give_up:
                return f"it did not save within {self.timeouts.save:g} seconds"
            yield
        return ""

    def who_saves(self, gang: Gang) -> frozenset[ReplicaKey]:
        """The replicas to ask for a checkpoint; none until all that can save are connected."""
        connected = self.server.connected(gang.job.id)
        can = {(one.role, one.index) for one in connected if one.can_save and one.attempt == gang.attempt}
        return to_ask(gang.savers, can, gang.present())

    def ask_to_save(self, gang: Gang) -> bool:
        asked = self.who_saves(gang)
        if asked:
            gang.asked(asked, self.clock())
            self.server.save(gang.job.id, gang.saves.request)
        return bool(asked)

    def _take_down(self, gang: Gang) -> Generator[None, None, None]:
        yield from self._dismiss(gang.replicas)

    def _dismiss(self, replicas: list[LocalReplica]) -> Generator[None, None, None]:
        """Stop these replicas. All have ended when this returns: what does not end by itself is killed."""
        for replica in replicas:
            replica.tell_to_stop()
        give_up = self.clock() + self.timeouts.stop
        while any(replica.poll() is None for replica in replicas):
            if self.clock() > give_up:
                for replica in replicas:
                    replica.group.remove()
                    replica.process.kill()
            yield

    def _tell_size(self, gang: Gang, placement: Placement) -> None:
        cpu = {role.name: gang.limits_of(placement, number).held / 1000 for number, role in enumerate(gang.job.roles)}
        self.server.resize(gang.job.id, gang.counts(), cpu)

    def _counts(self, gang: Gang, placement: Placement) -> dict[str, int]:
        return {role.name: len(nodes) for role, nodes in zip(gang.job.roles, placement.nodes, strict=True)}
