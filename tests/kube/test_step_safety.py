"""Whatever a gang is in and whatever its pods are: what no step may do, and that a second step does no harm."""

from __future__ import annotations

import math
import random

import pytest
from intents import JOB, LARGE, NOW, a_pod, on

from headway.core.gang import Phase
from headway.core.states import State
from headway.kube.api.objects import Meta
from headway.kube.gangs.gang import Around, Gang, StartFacts, Written
from headway.kube.gangs.intent import Intent, as_written
from headway.kube.gangs.model import Bind, Create, Delete, Effect, Publish, ResizePod
from headway.kube.gangs.step import shown, step
from headway.kube.values import replace

NODES = ("n1", "n2", "n3", "n4")
TARGETS = {
    State.STARTING: (on("n1", "n2"),), State.SCALING: (on("n1", "n2", "n3"),), State.MOVING: (on("n3", "n4"),),
    State.RESIZING: (on("n1", "n2", amounts=LARGE),),
}  # fmt: skip
STATES = (State.WAITING, State.RUNNING, State.STOPPING, *TARGETS)


def an_intent(dice: random.Random) -> Intent:
    state = dice.choice(STATES)
    stops, moves = state is State.STOPPING, state is State.MOVING
    return Intent(
        state=state, allocation=None if state in (State.WAITING, State.STARTING) else (on("n1", "n2"),),
        target=TARGETS.get(state), since=NOW - 5, until=dice.choice([math.inf, NOW - 1, NOW + 50]), attempt=1,
        draining=stops and dice.random() < 0.6, saved=moves and dice.random() < 0.5,
        goal=dice.choice([State.WAITING, State.CANCELLED, State.FAILED]) if stops else State.WAITING,
    )  # fmt: skip


def a_gang(dice: random.Random) -> Gang:
    pods, intent = [], an_intent(dice)
    for index in range(dice.randrange(5)):
        phase, deleting = dice.choice(list(Phase)), dice.random() < 0.2
        bound = phase is not Phase.PENDING or dice.random() < 0.6
        attempt = dice.choice([1, 1, 1, 0, 2])
        pods.append(a_pod(index, dice.choice(NODES), phase, attempt=attempt, bound=bound, deleting=deleting))
    return Gang(
        meta=Meta(name="j", uid="u"), job=JOB, wanted=intent, pods={pod.uid: pod for pod in pods},
        start=StartFacts(published=dice.choice([1, -1])),
        written=Written(dice.choice([None, as_written(intent)])),
    )  # fmt: skip


def requests(effects: tuple[Effect, ...]) -> list[Effect]:
    return [one for one in effects if isinstance(one, Create | Bind | Delete | ResizePod | Publish)]


@pytest.mark.parametrize("seed", range(8))
def test_what_no_step_may_do(seed):
    dice = random.Random(seed)
    for _ in range(500):
        gang, around = a_gang(dice), Around(gone=frozenset(dice.sample(NODES, dice.choice([0, 0, 1]))))
        new, effects = step(gang, around, NOW)
        alive = [pod for pod in gang.pods.values() if not pod.over]
        for one in requests(effects):
            if isinstance(one, Create):
                earlier = [pod for pod in alive if pod.attempt != one.attempt]
                assert not earlier, "two attempts must never write one checkpoint"
                assert one.attempt == new.wanted.attempt
            elif isinstance(one, Bind):
                made = [pod for pod in gang.pods.values() if pod.attempt == new.wanted.attempt]
                assert not any(isinstance(other, Create) for other in effects), "all pods of the gang are made first"
                assert one.uid in {pod.uid for pod in made if not pod.bound and not pod.deleting}
            elif isinstance(one, Delete):
                pod = gang.pods[one.uid]
                assert shown(new) == gang.written.intent, "the status that asks for it is written"
                assert one.grace != 0 or (pod.node in around.gone and pod.deleting), "its kubelet would train on"
                assert one.version == pod.version
        again, effects_again = step(new, around, NOW)
        assert again.wanted == new.wanted
        assert requests(effects_again) == requests(effects), "what is left to do is the same"


@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_gang_does_nothing(seed):
    dice = random.Random(seed)
    for _ in range(300):
        gang = a_gang(dice).freezes("a fault", NOW, again=NOW + 5)
        new, effects = step(gang, Around(gone=frozenset({"n1"})), NOW)
        assert requests(effects) == []
        assert (new.wanted, new.pods) == (gang.wanted, gang.pods)
        unproven = replace(a_gang(dice), unproven=frozenset({"p"}))
        assert requests(step(unproven, Around(), NOW)[1]) == []
