"""Hypothesis strategies of what a tenant may write: specs, templates and statuses, from plausible to absurd."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXTS = st.sampled_from(
    ["", "x", "main", "worker", "n0", "\x00", "\x1b[2J", "\u202e", "a" * 300, "1Gi", "-1", "1e400", "[/x]"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2, 2**31, 2**63, 10**12, 10**18, -(10**18), 0.5, 1e300, -1e300])
scalars = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(
    ["name", "spec", "metadata", "labels", "containers", "env", "value", "x", "resources", "roles", ""]
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=4
)


def mostly(sound: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What it should be, and now and then anything."""
    return st.one_of(sound, sound, sound, anything)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A map with some of these fields."""
    return st.fixed_dictionaries({}, optional={name: mostly(value) for name, value in fields.items()})


named = optional(name=TEXTS, value=TEXTS)
containers = optional(
    name=st.sampled_from(["main", "main", "side"]), image=TEXTS, env=st.lists(mostly(named), max_size=2),
    volumeMounts=st.lists(mostly(optional(mountPath=TEXTS, name=TEXTS)), max_size=2),
    ports=st.lists(mostly(optional(containerPort=NUMBERS)), max_size=2), command=st.lists(TEXTS, max_size=2),
    resources=optional(requests=st.dictionaries(TEXTS, scalars, max_size=2), limits=anything),
)  # fmt: skip
templates = optional(
    metadata=optional(labels=st.dictionaries(TEXTS, mostly(TEXTS), max_size=2), annotations=anything, name=anything),
    spec=optional(
        containers=st.lists(mostly(containers), max_size=2), initContainers=st.lists(mostly(containers), max_size=1),
        volumes=st.lists(mostly(named), max_size=2), tolerations=st.lists(mostly(named), max_size=2), nodeName=TEXTS,
        schedulerName=TEXTS, restartPolicy=TEXTS, affinity=anything, priorityClassName=anything,
    ),
)  # fmt: skip
roles = optional(
    replicas=st.integers(0, 3), min=st.integers(0, 3), max=st.integers(0, 3), cpu=st.sampled_from(["10m", 1, "0"]),
    memory=st.sampled_from(["1Mi", "1", 0]), gpu=st.integers(0, 1),
    resources=st.dictionaries(TEXTS, NUMBERS, max_size=2), limit=optional(cpu=NUMBERS),
    selector=st.dictionaries(TEXTS, TEXTS, max_size=1), tolerates=st.lists(TEXTS, max_size=2), accelerator=TEXTS,
    after=st.lists(TEXTS, max_size=2), near=st.lists(TEXTS, max_size=1), command=st.lists(TEXTS, max_size=2),
    env=st.dictionaries(TEXTS, TEXTS, max_size=2),
)  # fmt: skip
ROLE_NAMES = st.sampled_from(["worker", "worker", "ps", "a-b", "X", ""])
sound_specs = st.fixed_dictionaries({
    "roles": st.sampled_from([
        {"worker": {"replicas": 2, "min": 1, "max": 3, "cpu": "10m"}},
        {"worker": {"cpu": "10m"}, "ps": {"cpu": "10m", "after": ["worker"]}},
    ]),
})  # fmt: skip
specs = sound_specs | mostly(
    st.fixed_dictionaries(
        {"roles": mostly(st.dictionaries(ROLE_NAMES, mostly(roles), min_size=1, max_size=2))},
        optional={
            name: mostly(value)
            for name, value in {
                "user": TEXTS, "queue": TEXTS, "model": TEXTS, "priority": NUMBERS, "deadline": NUMBERS,
                "steps": NUMBERS, "seconds": NUMBERS, "checkpoints": st.booleans(), "directory": TEXTS,
                "target": optional(metric=TEXTS, atLeast=NUMBERS, atMost=NUMBERS),
                "success": optional(roles=st.lists(TEXTS, max_size=2), when=st.sampled_from(["all", "any"])),
                "can": st.lists(st.sampled_from(["size", "scale", "move", "stop", "x"]), max_size=2),
                "template": templates,
            }.items()
        },
    )
)  # fmt: skip

PHASES = [
    "Waiting",
    "Starting",
    "Running",
    "Scaling",
    "Resizing",
    "Moving",
    "Stopping",
    "Succeeded",
    "Failed",
    "Cancelled",
]
shares = st.lists(
    mostly(optional(role=st.sampled_from(["worker", "ps"]),
                    nodes=st.lists(mostly(st.sampled_from(["n0", "n9"])), max_size=3),
                    amounts=st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "x"]), NUMBERS, max_size=2))),
    max_size=2,
)  # fmt: skip
MOMENTS = st.sampled_from([0.0, 1.7e9, 1.7e9 + 60, 1e12, -1e12])
statuses = mostly(
    optional(
        phase=st.sampled_from(PHASES), attempt=st.integers(0, 3), allocation=shares, target=shares, since=MOMENTS,
        until=MOMENTS, goal=st.sampled_from(PHASES), draining=st.booleans(), saved=st.booleans(),
        losses=optional(times=st.lists(MOMENTS, max_size=3), step=st.integers(-1, 9)), refusals=st.integers(0, 30),
        declined=st.integers(0, 30), reason=TEXTS, message=TEXTS, progress=optional(step=NUMBERS),
        history=st.dictionaries(
            st.sampled_from(["attained", "stops", "touched", "firstStart", "x"]), NUMBERS, max_size=3
        ),
        savers=st.lists(st.tuples(TEXTS, NUMBERS), max_size=2), marked=st.booleans(),
    )
)  # fmt: skip

# ── what the API server accepts, by the schema of TrainingJobs ──

_ROLES = st.sampled_from([
    {"worker": {"replicas": 2, "cpu": "10m"}},
    {"ps": {"cpu": "10m"}, "worker": {"cpu": "10m", "after": ["ps"], "replicas": 2, "min": 1}},
    {"worker": {"cpu": "lots"}},
    {"worker": {"memory": "-1", "resources": {"a b": 1}}},
    {"worker": {"env": {"A=B": "x", "\u202e": ""}, "command": ["", "\x1b[2J"], "selector": {"": "x"}}},
    {"worker": {"tolerates": ["", "a" * 316], "accelerator": "\x1b", "near": ["worker"], "apart": ["worker"]}},
    {"a": {"after": ["b"]}, "b": {"after": ["a"]}},
    {"worker": {"replicas": 0}},
    {"worker": {"replicas": 10000, "cpu": 10**9}},
])  # fmt: skip
accepted_specs = st.fixed_dictionaries(
    {"roles": _ROLES},
    optional={
        "user": TEXTS, "queue": TEXTS, "model": TEXTS, "directory": TEXTS, "checkpoints": st.booleans(),
        "priority": st.sampled_from([0, 2**31 - 1, -(2**31)]), "deadline": st.sampled_from([0, 1.5, 1e300]),
        "steps": st.sampled_from([1, 10**12, 2**63 - 1]), "seconds": st.sampled_from([0, 1e300]),
        "template": templates | st.dictionaries(KEYS, anything, max_size=3),
        "success": st.sampled_from([{}, {"roles": ["x"]}, {"when": "any"}]),
        "target": st.sampled_from([{"atMost": 1e300}, {"metric": "\u202e", "atLeast": -1e300}]),
    },
)  # fmt: skip
