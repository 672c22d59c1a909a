"""How speed depends on replicas and accelerator types where nothing better is known of a job."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.job import Job, computes

PARALLEL = 0.9
"""Share of the work that more replicas divide among them."""
RELATIVE_SPEED: Mapping[str, float] = {
    # 1
    "k80": 0.36, "t4": 1.0, "p100": 1.31, "v100": 1.70, "a100": 2.08,
    "rtx2080ti": 1.29, "gtx2080ti": 1.29, "rtx6000": 1.67,
    # 2
    "gtx1080ti": 0.62, "rtx3080": 1.57, "rtx3090": 1.70, "rtx4090": 1.95, "rtxa6000": 1.75, "rtx6000ada": 1.93,
    "a10": 1.49, "a10g": 1.49, "h100": 3.82, "h100pcie": 2.75,
    # 3
    "h200": 4.29, "b200": 6.70, "mi300x": 3.49,
}  # fmt: skip
"""By accelerator type: one replica against one on a T4:

1. Geometric means over five models that Sia's authors measured (v100, a100 and the two rtx; Hydra's authors write gtx
   for one) and over 21 that Gavel's authors measured (k80, p100 against v100). Single models differ by up to 2.1 times.
2. Geometric means over ten models in Lambda's table of training throughput (half precision, 2022 and 2023), which has
   v100, a100, rtx2080ti and rtx6000, too: between those on a logarithmic scale, beyond them in proportion.
3. MLPerf Training's result logs, systems of eight, the median of each model and round: h200 against h100,
   1.12 over eight models of v4.0 and v4.1; b200 against h100, 1.75 over six of v4.1; mi300x against h200, 0.81 by one
   of v5.0, Llama 2 70B LoRA.
"""


def plain_speed(job: Job, counts: tuple[int, ...], parallel: float = PARALLEL) -> float:
    """Amdahl's law over the replicas that compute, relative to the requested size; zero below the gang's min."""
    if any(count < role.min for role, count in zip(job.roles, counts, strict=True)):
        return 0.0
    asked = sum(role.replicas for role in job.roles if computes(role.name))
    now = sum(count for role, count in zip(job.roles, counts, strict=True) if computes(role.name))
    if now == asked or not asked:
        return 1.0
    return 1.0 / ((1.0 - parallel) + parallel * asked / now) if now else 0.0
