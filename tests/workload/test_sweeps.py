"""`for:` in a jobs file: one entry, many jobs."""

from __future__ import annotations

import pytest

from headway.workload.errors import WorkloadError
from headway.workload.jobsfile import load
from headway.workload.sweeps import MOST_SWEPT

ENTRY = """
jobs:
- name: {name}
  for: {sweep}
  command: [python, train.py, --lr, "{{lr}}", '{{"seed": {{seed}}}}']
  env: {{RUN: "{{lr}}-{{other}}"}}
"""


def _load(tmp_path, sweep, name="mlp"):
    file = tmp_path / "jobs.yaml"
    file.write_text(ENTRY.format(sweep=sweep, name=name))
    return load(file).jobs


def test_one_entry_gives_a_job_for_each_combination_with_its_values_as_written(tmp_path):
    jobs = _load(tmp_path, "{lr: [0.10, 1e-3], seed: 2}")
    assert [job.id for job in jobs] == ["mlp-lr0-10-seed0", "mlp-lr0-10-seed1", "mlp-lr1e-3-seed0", "mlp-lr1e-3-seed1"]
    role = jobs[1].roles[0]
    assert role.command == ("python", "train.py", "--lr", "0.10", '{"seed": 1}')
    assert role.env == (("RUN", "0.10-{other}"),), "braces that are no name of the sweep stay"


@pytest.mark.parametrize(
    ("name", "sweep", "names"),
    [
        ('"r{seed}-{lr}"', "{lr: [a], seed: 2}", ["r0-a", "r1-a"]),
        ("long", f"{{lr: [{'x' * 60}], seed: 2}}", ["long-0", "long-1"]),
        ("alike", "{lr: [a_b, a-b], seed: [1]}", ["alike-0", "alike-1"]),
    ],
    ids=["in the name", "too long", "alike"],
)
def test_names_are_readable_and_unique(tmp_path, name, sweep, names):
    assert [job.id for job in _load(tmp_path, sweep, name)] == names


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ("{lr: [], seed: 1}", "line 4: job 'mlp': field for.lr: has no value"),
        ("{lr: [1, 1], seed: 1}", "field for.lr: has a value twice"),
        ("{lr: 0, seed: 1}", "field for.lr: must be between 1 and"),
        ("{l r: 2, seed: 1}", "field for: 'l r' is no name"),
        (f"{{lr: 200, seed: {MOST_SWEPT // 100}}}", "gives 20000 jobs"),
        ("{lr: {a: 1}}", "field for.lr: must be a whole number or a list"),
    ],
)
def test_mistakes_are_one_sentence_with_the_line(tmp_path, sweep, told):
    with pytest.raises(WorkloadError) as refused:
        _load(tmp_path, sweep)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
