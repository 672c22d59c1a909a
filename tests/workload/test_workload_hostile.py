"""Files that were tracebacks, hangs or silent surprises: each is one sentence with file, line and field."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headway.core.errors import UserError
from headway.workload.cluster import open_cluster
from headway.workload.jobsfile import load
from headway.workload.open import open_workload

JOB = "jobs:\n- name: a\n  cpu: 1\n  "

HOSTILE = {
    "priority beyond int32": ("priority: 3000000000", "line 4: job 'a': field priority: must be between"),
    "replicas beyond int32": ("replicas: 3000000000", "job 'a', role 'worker': field replicas: must be 1000000"),
    "max beyond int32": ("max: 3000000000", "line 4: job 'a', role 'worker': field max: must be 1000000 or less"),
    "steps beyond int64": ("steps: 99999999999999999999", "line 4: job 'a': field steps: must be 1000000000000000 or"),
    "5,000 digits": ("replicas: " + "9" * 5000, "line 4: the number 99999999999999999999999999999"),
    "no date": ("submit: 2024-99-99", "line 4: job 'a': field submit: '2024-99-99' is not a duration"),
    "a date": ("submit: 2024-01-01", "line 4: job 'a': field submit: '2024-01-01' is not a duration"),
    "half a hex": ("gpu: 0x_", "line 4: job 'a', role 'worker': field gpu: gpu cannot be '0x_'"),
    "deep list": ("env: " + "[" * 3000 + "]" * 3000, "line 4: nested more than 50 levels deep"),
    "deep mapping": ("env: " + "{a: " * 2000 + "}" * 2000, "line 4: nested more than 50 levels deep"),
    "very deep": ("env: " + "[" * 200_000, "line 4: nested more than 50 levels deep"),
    "twice": ("user: a\n  cpu: 2", "line 5: field cpu: exists twice, first in line 3"),
    "twice in env": ("env:\n    A: 1\n    B: 2\n    A: 3", "line 7: field A: exists twice, first in line 5"),
    "list as key": ("? [a]\n  : b", "line 4: a key must be text"),
    "no anchor": ("user: *nobody", "line 4: there is no &nobody before this *nobody"),
    "own anchor": ("env: &me {A: *me}", "line 4: there is no &me before this *me"),
    "tag": ("user: !!python/name:os.system", "line 4: the tag tag:yaml.org,2002:python/name:os.system has no"),
    "merge of text": ("<<: text", "line 4: <<: must name a mapping"),
    "far deadline": ("deadline: 1e300", "line 4: job 'a': field deadline: '1e300' is too long"),
    "infinite": ("seconds: .inf", "line 4: job 'a': field seconds: 'inf' is not a duration"),
    "NUL": ('command: [a, "b\\0"]', "line 4: job 'a', role 'worker': field command: has a NUL character"),
    "variable": ("env: {A=B: c}", "line 4: job 'a', role 'worker': field env: 'A=B' is not a name of a variable"),
    "second document": ("user: x\n---\njobs: []", "line 5: a second document begins here"),
    "command as text": (
        "command: python train.py --name 'my run'",
        'line 4: job \'a\': field command: must be a list: write command: [python, train.py, --name, "my run"]',
    ),
    "list as text": ("can: move", "line 4: job 'a': field can: must be a list: write can: [move]"),
    "did you mean": ("cpus: 2", "line 4: job 'a': unknown field 'cpus'; did you mean cpu?"),
    "shortened": ("mem: 2Gi", "line 4: job 'a': unknown field 'mem'; did you mean memory?"),
    "in a role": ("roles: {ps: {replcas: 2}}", "field roles.ps: unknown field 'replcas'; did you mean replicas?"),
    "type in a role": ("roles: {ps: {cpu: 1}, w: {min: x}}", "field roles.w.min: must be a whole number, not"),
    "in a target": ("target: {at_leest: 1}", "job 'a': field target: unknown field 'at_leest'; did you mean at_least?"),
    "no such limit": ("limit: {gpu: 1}", "job 'a': field limit: unknown field 'gpu'; there are cpu, memory"),
    "choice": ("success: {when: never}", "line 4: job 'a': field success.when: must be all or any, not 'never'"),
    "list in env": ("env: {A: b, C: [1]}", "line 4: job 'a': field env.C: must be a number or text, not a list"),
    "simulate": ("user: x\nsimulate: {nois: 1}", "line 5: field simulate: unknown field 'nois'; did you mean noise?"),
    "simulate share": ("user: x\nsimulate: {noise: 3}", "line 5: field simulate.noise: must be a number <= 1.0, not 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_jobs_file_is_refused_with_its_line(tmp_path, case):
    text, sentence = HOSTILE[case]
    path = tmp_path / "a.yaml"
    path.write_text(JOB + text + "\n")
    with pytest.raises(UserError) as told:
        load(path)
    message = str(told.value)
    assert message.startswith(f"{path}, line ")
    assert sentence in message
    assert "\n" not in message
    assert len(message) < 600


def test_words_of_a_command_and_values_of_an_environment_stay_as_written(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        JOB + "command: [python, train.py, --steps, 700, 0.10, 010, 1e-3, yes]\n  env: {N: 08, DAY: 2024-01-01}"
    )
    (role,) = load(path).jobs[0].roles
    assert role.command == ("python", "train.py", "--steps", "700", "0.10", "010", "1e-3", "yes")
    assert dict(role.env) == {"N": "08", "DAY": "2024-01-01"}
    (tmp_path / "a.jsonl").write_text('{"name": "a", "cpu": 1, "command": ["a", 7], "env": {"N": 4}}\n')
    (role,) = open_workload(tmp_path / "a.jsonl").jobs[0].roles
    assert (role.command, role.env) == (("a", "7"), (("N", "4"),))


def test_anchors_and_merges_are_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("jobs:\n- &base {name: a, cpu: 1, env: &e {A: x}}\n- {<<: *base, name: b, cpu: 2}\n"
                    "- {<<: [{gpu: 1}, *base], name: c, env: *e}\n")  # fmt: skip
    a, b, c = load(path).jobs
    assert [dict(job.roles[0].request) for job in (a, b, c)] == [{"cpu": 1000}, {"cpu": 2000}, {"cpu": 1000, "gpu": 1}]
    assert a.roles[0].env == b.roles[0].env == c.roles[0].env


def test_aliases_that_multiply_are_refused(tmp_path):
    path = tmp_path / "a.yaml"
    lines = ["a: &x0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    lines += [f"b{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]" for i in range(1, 20)]
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"a\.yaml, line 7: more than 5000000 values"):
        load(path)


def test_a_billion_nodes_are_refused_at_once(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("nodes:\n- {cpu: 1}\n- {cpu: 1, count: 1000000000}\n")
    with pytest.raises(UserError, match=r"a\.yaml, line 3: nodes\[1\]: field count: more than 1000000 nodes"):
        open_cluster(path)
    path.write_text("nodes:\n" + "- {cpu: 1, count: 999999}\n" * 3)
    with pytest.raises(UserError, match="line 3: nodes\\[1\\]: field count: more than 1000000 nodes"):
        open_cluster(path)


@pytest.mark.parametrize("text", ["3" * 300, "a/" * 3000, "\0x3", "9x" + "9" * 5000, "9" * 5000 + "x3", "٣x٣"])
def test_a_text_that_is_no_cluster_is_refused_briefly(text):
    with pytest.raises(UserError, match="--cluster") as told:
        open_cluster(text)
    assert len(str(told.value)) < 300


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path):
    for name in ("a.yaml", "a.csv", "a.jsonl"):
        (tmp_path / name).touch(mode=0)
        with pytest.raises(UserError, match=f"{name}: cannot be read: Permission denied"):
            open_workload(tmp_path / name)


def test_the_command_line_ends_with_one_sentence_and_code_2(tmp_path):
    (tmp_path / "a.yaml").write_text(JOB + "priority: 3000000000\n")
    words = [sys.executable, "-m", "headway", "simulate", "a.yaml", "--cluster", "1x1cpu"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("headway: a.yaml, line 4: job 'a': field priority: must be")
    assert len(done.stderr.splitlines()) == 1
