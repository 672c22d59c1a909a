"""What every field of a jobs file means, with an example: for the JSON schemas and for docs/job-fields.md."""

from __future__ import annotations

from typing import Any

from headway.jobspec import Limit, RoleFields, SuccessFields, TargetFields
from headway.restarts import RestartFields
from headway.workload.jobsfile import JobFields, NodeFields, RetryFields
from headway.workload.simulate_fields import ExitFields, FaultFields, OutageFields, SimulateFields, SpeedFields

Docs = dict[str, tuple[str, str]]
"""Field to what it means and an example in YAML."""

_RESOURCES = "Other resources of one {of}, by name, in whole units."
_SAVE_EVERY = (
    "Ask it to save after so much training; less often where saves would take over 2 % of its time."
    " `never`: only before it is stopped or moved."
)
_ROLES = (
    "Roles by name, each with the fields of a role. Without it the job has one role, `worker`, and the job's own "
    "fields are those of the role. `command` and `env` of the job hold for roles without their own."
)
_SUCCESS = "Roles that must end well. Empty: `chief` or `master` if there is one, else roles that no other comes after."
_NODE = "The name; with `count` above 1 the nodes are NAME-0, NAME-1, … Default: node and its number."

_ON_END = (
    "A command that runs on this machine when the job is over. HEADWAY_JOB, HEADWAY_PHASE, HEADWAY_EXIT_CODE and "
    "HEADWAY_LOG tell of it. Not on Kubernetes."
)
_RETRIES = (
    "How often it starts again, from its checkpoint, after an error: a number, or with the errors that count. Not on "
    "Kubernetes."
)
_RULES = "Exit codes, and texts of which one is in the last 20 lines of a replica that failed. Empty: any error."
_FOR = (
    "A sweep: one job for each combination of these values; a number N stands for 0 to N - 1. `{lr}` in name, command "
    "and env is the value."
)
_REPLICAS = (
    "Requested replicas: processes or pods that are alike. `auto`: the script is data-parallel, and the scheduler "
    "chooses, from `min` (1) to `max` (64) or what fits."
)
ROLE: Docs = {
    "replicas": (_REPLICAS, "replicas: 4"),
    "min": ("Min replicas. The gang is never started with fewer. Default: `replicas`.", "min: 2"),
    "max": ("Max replicas. With `max` above `min` the job is elastic. Default: `replicas`.", "max: 8"),
    "cpu": ("Cores of one replica: 2, 1.5 or 500m.", "cpu: 500m"),
    "memory": ("Memory of one replica: 512Mi, 2Gi.", "memory: 2Gi"),
    "gpu": ("GPUs of one replica, its own: no other job has them.", "gpu: 1"),
    "resources": (_RESOURCES.format(of="replica"), "resources: {tpu: 4}"),
    "limit": ("What one replica may use where its node has it spare. It holds what it requests.", "limit: {cpu: 2}"),
    "selector": ("Labels that the node must have.", "selector: {disk: ssd}"),
    "tolerates": ("Taints that these replicas accept: a key, `key=value` or `key=value:Effect`.", "tolerates: [slow]"),
    "accelerator": ("The accelerator type that the node must have, or several. Empty: any.", "accelerator: A100, V100"),
    "after": ("Roles whose replicas must be up before these are started.", "after: [ps]"),
    "near": ("Roles that these replicas exchange data with; they are placed close to them.", "near: [worker]"),
    "apart": ("Roles that these replicas should not share a node with.", "apart: [ps]"),
    "command": ("The program and its words, as written; `$(NAME)` is a variable.", "command: [python, train.py, 700]"),
    "env": ("Variables of the environment. Values are taken as written.", "env: {LEARNING_RATE: 0.10}"),
}  # fmt: skip

JOB: Docs = {
    **ROLE,
    "name": ("Required, unique: 1 to 52 of a-z, 0-9 and -; a letter or digit at both ends.", "name: bert-2"),
    "user": ("Who submits the job: for fairness between users.", "user: ann"),
    "queue": ("The queue that the job belongs to: for quotas (`--queues`).", "queue: vision"),
    "priority": ("Jobs with a higher priority come first. May be below 0.", "priority: 5"),
    "submit": ("When the job is submitted, after the start of the run: 90, 90s, 5m, 1.5h, 2d.", "submit: 5m"),
    "deadline": ("By when the job should be done, from its submission. An impossible one is told.", "deadline: 2h"),
    "steps": ("Training steps in all. With a `target`: their max.", "steps: 10000"),
    "target": ("The job stops itself when a metric that it reports is good enough.", "target: {at_most: 0.5}"),
    "success": ("Which replicas must end well for the job to have succeeded.", "success: {roles: [worker]}"),
    "restarts": ("How often it may start again before it fails, if not as usual.", "restarts: {losses: 9}"),
    "retries": (_RETRIES, "retries: {times: 2, on: [75, CUDA out of memory]}"),
    "on_end": (_ON_END, "on_end: [notify-send, run is over]"),
    "on_failure": ("The same, only if the job failed.", "on_failure: [sh, -c, 'tail $HEADWAY_LOG >> lost']"),
    "seconds": ("Training time at the requested size, as you expect it. `simulate` needs it.", "seconds: 2h"),
    "can": ("What a policy may do to the job, of size, scale, resize, move, stop. Default: all.", "can: [size, move]"),
    "checkpoints": ("It saves on request and resumes. If not, no policy moves or stops it.", "checkpoints: false"),
    "saves": ("`asked`: when Headway asks it. `itself`: its script does; a new size is a new start.", "saves: itself"),
    "save_every": (_SAVE_EVERY, "save_every: 30m"),
    "fresh": ("Start afresh where its arguments have changed. Else it goes on from its checkpoint.", "fresh: true"),
    "model": ("The name under which speeds and the history of like jobs are kept.", "model: bert"),
    "for": (_FOR, "for: {lr: [0.1, 0.01], seed: 3}"),
    "roles": (_ROLES, "roles: {ps: {cpu: 1}, worker: {gpu: 1, replicas: 4, after: [ps]}}"),
}  # fmt: skip

NODE: Docs = {
    "name": (_NODE, "name: big"),
    "count": ("How many nodes are like this.", "count: 16"),
    "cpu": ("Cores of one node.", "cpu: 96"),
    "memory": ("Memory of one node.", "memory: 768Gi"),
    "gpu": ("GPUs of one node.", "gpu: 8"),
    "resources": (_RESOURCES.format(of="node"), "resources: {tpu: 4}"),
    "labels": ("Labels that a role's `selector` asks for.", "labels: {disk: ssd}"),
    "taints": ("`key` or `key=value:Effect`. Only roles that tolerate all of them run here.", "taints: [slow]"),
    "domain": ("The topology domain, such as a rack or switch. Data travels faster inside one.", "domain: rack1"),
    "accelerator": ("The accelerator type.", "accelerator: A100"),
}  # fmt: skip

TARGET: Docs = {
    "metric": ("The name under which the training script reports it.", "metric: accuracy"),
    "at_least": ("The job stops when the metric is at least this. Give this or `at_most`.", "at_least: 0.93"),
    "at_most": ("The job stops when the metric is at most this.", "at_most: 0.5"),
}

SUCCESS: Docs = {
    "roles": (_SUCCESS, "roles: [worker]"),
    "when": ("Whether `all` replicas of these roles must end well, or `any` one of them.", "when: any"),
}  # fmt: skip

RESTARTS: Docs = {
    "losses": ("It fails after more losses than this in a window without progress: 3 by default.", "losses: 20"),
    "window": ("The length of that window: an hour by default.", "window: 2h"),
    "refusals": ("It fails after more refused starts in a row than this: 10 by default.", "refusals: 30"),
}

RETRIES: Docs = {
    "times": ("How often it starts again.", "times: 2"),
    "on": (_RULES, "on: [75, CUDA out of memory]"),
    "not_on": ("Those after which it does not, in the same way. Empty: none.", "not_on: [2, No such file]"),
}

LIMIT: Docs = {
    "cpu": ("Cores, at least those requested.", "cpu: 4"),
    "memory": ("Memory, at least that requested.", "memory: 8Gi"),
}

SIMULATE: Docs = {
    "start": ("Time from the decision to start a job until it trains.", "start: 30s"),
    "save": ("Time to save a checkpoint.", "save: 10s"),
    "stop": ("Time from the checkpoint until resources are free.", "stop: 5s"),
    "scale": ("Time to add or remove replicas.", "scale: 20s"),
    "resize": ("Time to change cpu and memory in place.", "resize: 1s"),
    "checkpoint": (
        "Save after this much training, not as jobs' `save_every` says. 0: on request.",
        "checkpoint: 30m",
    ),
    "report": ("Min time between two progress reports of a job.", "report: 10s"),
    "noise": ("Standard deviation of a reported loss, as a share of the loss.", "noise: 0.02"),
    "faults": ("Faults of nodes, replicas and starts. Default: none.", "faults: {between: 7d, repair: 2h}"),
    "speed": ("How speed depends on placement and neighbours.", "speed: {profiles: built-in}"),
}

FAULTS: Docs = {
    "between": ("Mean time between the repair and the next failure of a node. 0: never.", "between: 7d"),
    "repair": ("Mean time of a repair.", "repair: 2h"),
    "outages": ("Outages of single nodes at given times.", "outages: [{node: n0, at: 1h, seconds: 10m}]"),
    "exits": ("Ends of single replicas at given times.", "exits: [{job: a, after: 5m, code: 137}]"),
    "refused_starts": ("Share of starts that are refused.", "refused_starts: 0.01"),
    "stragglers": ("Share of replicas that are slow.", "stragglers: 0.05"),
    "straggler_speed": ("Their speed, as a share of the usual one.", "straggler_speed: 0.5"),
}

SPEED: Docs = {
    "profiles": ("`built-in`, or a folder of published measurements. Empty: no dependence.", "profiles: built-in"),
    "accelerators": ("Relative speed of each accelerator type.", "accelerators: {A100: 2.5, T4: 1}"),
    "node_loss": ("Share of speed that a gang loses when it is on several nodes.", "node_loss: 0.05"),
    "domain_loss": ("Share of speed that a gang loses when it is in several domains.", "domain_loss: 0.1"),
    "neighbour_loss": ("Share of speed that a job loses to neighbours on its nodes.", "neighbour_loss: 0.1"),
    "share_cpu": (
        "Replicas with a `limit` use spare cpu of their node. False: no more than they hold.",
        "share_cpu: false",
    ),
}

OUTAGE: Docs = {
    "node": ("The node that fails.", "node: n0"),
    "at": ("When it fails.", "at: 1h"),
    "seconds": ("For how long.", "seconds: 10m"),
}

EXIT: Docs = {
    "job": ("The job.", "job: bert"),
    "after": ("Time after its gang has come up.", "after: 5m"),
    "code": ("The exit code; 128 + N for signal N, as in a shell.", "code: 137"),
    "role": ("The role of the replica.", "role: ps"),
    "index": ("The number of the replica in its role.", "index: 1"),
    "attempt": ("Only in this start of the gang, counted from 1. 0: in every one.", "attempt: 1"),
    "out_of_memory": ("The replica ends for want of memory.", "out_of_memory: true"),
}

FIELD_DOCS: dict[type[Any], Docs] = {
    JobFields: JOB, RoleFields: ROLE, Limit: LIMIT, TargetFields: TARGET, SuccessFields: SUCCESS,
    RestartFields: RESTARTS, RetryFields: RETRIES, NodeFields: NODE,
    SimulateFields: SIMULATE, FaultFields: FAULTS, OutageFields: OUTAGE, ExitFields: EXIT, SpeedFields: SPEED,
}  # fmt: skip

TITLES: dict[type[Any], str] = {
    JobFields: "A job: `jobs:`", RoleFields: "A role: `roles:`", Limit: "`limit:`", TargetFields: "`target:`",
    SuccessFields: "`success:`", RestartFields: "`restarts:`", RetryFields: "`retries:`",
    NodeFields: "A node: `nodes:`",
    SimulateFields: "Virtual time: `simulate:`",
    FaultFields: "`simulate: faults:`", OutageFields: "`simulate: faults: outages:`",
    ExitFields: "`simulate: faults: exits:`", SpeedFields: "`simulate: speed:`",
}  # fmt: skip
