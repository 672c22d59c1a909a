"""Of which gang a pod of others is, and how many pods that has. Pure.

| a pod says | its gang | so many pods |
|---|---|---|
| `spec.schedulingGroup.podGroupName` | the PodGroup | its `minCount` |
| label `headway.dev/group` | all pods with that label in the namespace | label `headway.dev/group-size` |
| its controller is a Job of a JobSet | the JobSet | the parallelism of all its Jobs |
| its controller is an Indexed Job with as many completions as it runs at once | the Job | its parallelism |

Pods of Jobs and JobSets that are done count no more. Example: three of the four pods of a Job have succeeded, and the
last has failed. The one that the Job makes in its place is all that is left to run.

All other pods are alone. Pods of other controllers that make gangs wait, with the reason: one by one they would be
placed as half a gang.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.objects import GROUP, Pod
from headway.kube.intake.spec import job_id
from headway.kube.pods.gate import pinned_to

LABEL, SIZE = f"{GROUP}/group", f"{GROUP}/group-size"
JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE_LABELS = (f"{GROUP}/role", "jobset.sigs.k8s.io/replicatedjob-name")
"""Labels that name the role of a pod."""
SINGLE = frozenset({"", "v1", "apps", "batch"})
"""API groups whose controllers make pods that can run one by one."""
OTHER_GANGS = (
    "leaderworkerset.sigs.k8s.io/name", "training.kubeflow.org/job-name", "ray.io/cluster",
    "pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group",
)  # fmt: skip
MAX_SIZE = 100_000


@dataclass(frozen=True, slots=True)
class GroupRef:
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """The uid of its gang: pods may be made anew under the same name."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def job(self) -> str:
        """The id of its job in logs: `team/jobset:resnet`."""
        return f"{job_id(self.namespace, self.kind.lower())}:{self.name}"


@dataclass(frozen=True, slots=True)
class GroupRead:
    """How many pods a gang has, as its object says; 1: its pods are alone. None: why that is not known."""

    ref: GroupRef
    size: int | None
    why: str = ""


@dataclass(slots=True)
class Group:
    """Pods of a gang that is not on the board yet."""

    ref: GroupRef
    size: int | None = None
    why: str = ""
    pods: dict[str, Pod] = field(default_factory=dict)
    """By uid."""

    def lacks(self) -> str:
        """Why it cannot be planned yet; empty if it can. What has begun goes on with the pods that it has."""
        if self.size is None:
            return self.why or f"its {self.ref.kind} {self.ref.name} is being read"
        begun = any(pod.spec.nodeName or pinned_to(pod) for pod in self.pods.values())
        if begun or len(self.pods) >= self.size:
            return ""
        return f"{len(self.pods)} of the {self.size} pods of {self.ref.kind} {self.ref.name} are there"


def group_of(pod: Pod) -> GroupRef | None:
    """None if it is alone, or of a gang that is not known."""
    meta, native = pod.metadata, pod.spec.schedulingGroup
    if isinstance(native, Mapping) and native.get("podGroupName"):
        return GroupRef("PodGroup", meta.namespace, str(native["podGroupName"]))
    if LABEL in meta.labels:
        return GroupRef("Group", meta.namespace, meta.labels[LABEL])
    owner = next((one for one in meta.ownerReferences if one.controller), None)
    if owner is not None and owner.kind == "Job" and owner.apiVersion.startswith("batch/"):
        if JOBSET in meta.labels:
            return GroupRef("JobSet", meta.namespace, meta.labels[JOBSET])
        return GroupRef("Job", meta.namespace, owner.name)
    return None


def unknown_gang(pod: Pod) -> str:
    """Why this pod is not placed alone; empty if it may be."""
    if pod.spec.nodeName or group_of(pod) is not None:
        return ""
    for owner in pod.metadata.ownerReferences:
        if owner.controller and owner.apiVersion.rpartition("/")[0] not in SINGLE:
            return (
                f"its controller is a {owner.kind}, which makes gangs that Headway does not know; it is not bound alone"
            )
    label = next((label for label in OTHER_GANGS if label in pod.metadata.labels), "")
    return f"it is of a gang (label {label}) that Headway does not know; it is not bound alone" if label else ""


def role_of_pod(pod: Pod) -> str:
    return next((pod.metadata.labels[label] for label in ROLE_LABELS if label in pod.metadata.labels), "pod")


# ── what the objects say ────────────────────────────────────────────────────────────────────────────────────


def size_by_label(pod: Pod) -> GroupRead:
    ref, text = GroupRef("Group", pod.metadata.namespace, pod.metadata.labels[LABEL]), pod.metadata.labels.get(SIZE, "")
    if not text.isdecimal() or not 0 < int(text) <= MAX_SIZE:
        return GroupRead(ref, None, f"metadata.labels[{SIZE}]: must be the number of pods of the group, not {text!r}")
    return GroupRead(ref, int(text))


def size_of_pod_group(found: Mapping[str, Any]) -> int:
    """Without a gang its pods are placed one by one."""
    policy = found.get("spec", {}).get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount", 1))


def size_of_job(found: Mapping[str, Any]) -> int:
    """How many are still to run. Kubernetes' own rule: other Jobs run as many pods at a time as there is room for."""
    spec, status = found.get("spec", {}), found.get("status", {})
    parallel, whole = int(spec.get("parallelism", 1)), spec.get("completions")
    if spec.get("completionMode") != "Indexed" or parallel != whole:
        return 1
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or []
    done = int(status.get("succeeded") or 0) + len(uncounted) + _indexes(status.get("failedIndexes") or "")
    return max(1, parallel - done)


def _indexes(text: str) -> int:
    """How many `0,3-5` are."""
    ends = [part.partition("-") for part in text.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def size_of_job_set(found: Mapping[str, Any]) -> int:
    jobs = found.get("spec", {}).get("replicatedJobs") or []
    return sum(
        int(one.get("replicas", 1)) * int(one.get("template", {}).get("spec", {}).get("parallelism", 1)) for one in jobs
    )
