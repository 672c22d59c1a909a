"""What is wrong with a file is told in one sentence with file, line and field."""

from __future__ import annotations

import gzip

import pytest

from headway.core.errors import UserError
from headway.workload.open import FORMATS, open_workload

PHILLY = "job_id,submit_s,duration_s,num_gpus,vc\n1,0,10,1,a\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration\n0,1,0,1,m,10\n"
CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort\n"
)
HELIOS = "job_id,user,vc,gpu_num,state,submit_time,duration\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"
GAVEL = "A3C\tcmd\t-n\t1\t100\t0\t1\n"

BAD = {
    "saves nothing by itself": (
        "a.yaml",
        "jobs: [{name: a, saves: itself, checkpoints: false}]",
        "field saves: a job without checkpoints",
    ),
    "saves by whom": ("a.yaml", "jobs: [{name: a, saves: never}]", "saves"),
    "a loss below none": (
        "a.yaml",
        "jobs: [{name: a, restarts: {losses: -1}}]",
        "restarts.losses: must be between",
    ),
    "retries below none": ("a.yaml", "jobs: [{name: a, retries: -1}]", "field retries: must be between 0 and"),
    "retries on no exit code": (
        "a.yaml",
        "jobs: [{name: a, retries: {times: 2, on: [256]}}]",
        "field retries.on: must be exit codes (1 to 255) or texts of one line, not 256",
    ),
    "retries not on nothing": (
        "a.yaml",
        "jobs: [{name: a, retries: {times: 2, not_on: [' ']}}]",
        "field retries.not_on: must be exit codes (1 to 255) or texts of one line, not ' '",
    ),
    "no window": (
        "a.yaml",
        "jobs: [{name: a, restarts: {window: soon}}]",
        "restarts.window: 'soon' is not a",
    ),
    "no number": ("a.csv", PHILLY + "2,0,ten,1,a\n", "a.csv, line 3: field duration_s: 'ten' is not a number"),
    "infinite": ("a.csv", PHILLY + "2,0,inf,1,a\n", "a.csv, line 3: field duration_s: 'inf' is not finite"),
    "nan": ("a.csv", PHILLY + "2,nan,5,1,a\n", "a.csv, line 3: field submit_s: 'nan' is not finite"),
    "negative duration": ("a.csv", PHILLY + "2,0,-5,1,a\n", "line 3: field duration_s: must be 0 or more, is -5"),
    "negative GPUs": ("a.csv", PHILLY + "2,0,5,-1,a\n", "line 3: field num_gpus: must be 0 or more, is -1"),
    "half a GPU": ("a.csv", PHILLY + "2,0,5,1.5,a\n", "line 3: field num_gpus: must be a whole number, not '1.5'"),
    "too many GPUs": (
        "a.csv",
        PHILLY + "2,0,5,99999999999,a\n",
        "line 3: field num_gpus: must be between 1 and 1000000",
    ),
    "twice": (
        "a.csv",
        PHILLY + "1,0,5,1,a\n",
        "line 3: field job_id: two jobs are called '1' (the other is in line 2)",
    ),
    "no id": ("a.csv", PHILLY + ",0,5,1,a\n", "a.csv, line 3: field job_id: must not be empty"),
    "short row": ("a.csv", PHILLY + "2,0,5\n", "a.csv, line 3: has 3 columns instead of 5"),
    "no job": ("a.csv", PHILLY.replace(",1,a", ",0,a"), "the file has no job; 1 rows dropped: they ask for no GPU"),
    "header only": ("a.csv", PHILLY.splitlines()[0], "a.csv: the file has no job"),
    "empty": ("a.csv", "", "a.csv: the file is empty"),
    "tiresias": ("a.csv", TIRESIAS + "1,1,0,many,m,10\n", "a.csv, line 3: field iterations: 'many' is not a number"),
    "chronus list": (
        "a.csv",
        CHRONUS + "0,v,1,0,1,m,9,1,5-x,1-2,0\n",
        "line 2: field expect_time_list: '5-x' is not a list",
    ),
    "chronus pairs": (
        "a.csv",
        CHRONUS + "0,v,1,0,1,m,9,1,5-6,1,0\n",
        "line 2: field expect_value_list: has 1 values for 2",
    ),
    "date": (
        "a.csv",
        HELIOS + "1,u,v,1,OK,yesterday,5\n",
        "a.csv, line 2: field submit_time: 'yesterday' is not a date",
    ),
    "openb": (
        "a.csv",
        OPENB + "p,1,1,1,1000,,LS,0,5,9\n",
        "a.csv, line 2: field deletion_time: is 4 s before the start",
    ),
    "trace width": ("a.trace", "a\tb\n", "a.trace, line 1: has 2 columns; such traces have 7, 10 or 12"),
    "trace number": (
        "a.trace",
        GAVEL + "A3C\tcmd\t-n\t1\tx\t0\t1\n",
        "a.trace, line 2: field steps: 'x' is not a number",
    ),
    "trace row": ("a.trace", GAVEL + "A3C\tcmd\n", "a.trace, line 2: has 2 columns instead of 7"),
    "empty trace": ("a.trace", "", "a.trace: the file is empty"),
    "pai": (
        "pai_task_table.csv",
        "j,w,1,T,9,3,1,1,100,T4\n",
        "line 1: field end_time: the task ends at 3, before it starts",
    ),
    "pollux": (
        "a.csv",
        "name,time,application,num_replicas,batch_size\nx,0,bert,1,0\n",
        "line 2: field batch_size: must be",
    ),
    "raw log": ("cluster_job_log", '[{"jobid": 3}]', "cluster_job_log: not a Philly job log: "),
    "raw date": (
        "cluster_job_log",
        (
            '[{"jobid": "a", "submitted_time": "x", "attempts": [{"start_time": "2017-10-07 01:12:00", "end_time": '
            '"2017-10-07 01:13:00", "detail": [{"gpus": ["g"]}]}]}]'
        ),
        "cluster_job_log, line 1: field submitted_time: 'x' is not a date",
    ),
    "own column": ("a.csv", "name,submit,seconds,colour\na,0,5,red\n", "a.csv, line 1: field colour: no such column"),
    "own column, nearly": (
        "a.csv",
        "name,dedline\na,0\n",
        "a.csv, line 1: field dedline: no such column; did you mean",
    ),
    "line command": (
        "a.jsonl",
        '{"name": "a", "command": "python train.py"}',
        "a.jsonl, line 1: field command: must be a list: write command: [python, train.py]",
    ),
    "line digits": ("a.jsonl", '{"name": "a", "priority": %s}' % ("9" * 5000), "a.jsonl, line 1: field priority: "),
    "line replicas": (
        "a.jsonl",
        '{"name": "a", "replicas": %s}' % ("9" * 30),
        "role 'worker': field replicas: must be",
    ),
    "line priority": ("a.jsonl", '{"name": "a", "gpu": 1, "priority": 3000000000}', "line 1: field priority: must be"),
    "line depth": ("a.jsonl", '{"name": ' + "[" * 100_000, "a.jsonl, line 1: "),
    "own number": (
        "a.csv",
        "name,submit,seconds\na,0,soon\n",
        "a.csv, line 2: field seconds: 'soon' is not a duration",
    ),
    "own replicas": (
        "a.csv",
        "name,replicas\na,0\n",
        "a.csv, line 2: field replicas: must be a whole number >= 1, not '0'",
    ),
    "own sizes": ("a.csv", "name,replicas,min\na,2,3\n", "a.csv, line 2, role 'worker': field replicas: min (3)"),
    "own truth": ("a.csv", "name,true_seconds\na,-2\n", "a.csv, line 2: field true_seconds: '-2' is not a duration"),
    "own nothing": ("a.csv", "name,gpu\na,0\n", "a.csv, line 2: field gpu: the job requests no resource"),
    "own twice": (
        "a.csv",
        "name\na\na\n",
        "a.csv, line 3: field name: two jobs are called 'a' (the other is in line 2)",
    ),
    "own name": ("a.csv", "name\nA b\n", "a.csv, line 2: field name: use 1 to 52 of a-z"),
    "own target, no value": (
        "a.csv",
        "name,target_metric\na,loss\n",
        "a.csv, line 2: field target_metric: name a metric and either target_at_least or target_at_most",
    ),
    "own target, both": (
        "a.csv",
        "name,target_at_least,target_at_most\na,1,\nb,1,2\n",
        "a.csv, line 3: field target_at_least: name a metric and either target_at_least or target_at_most",
    ),
    "own target, never": (
        "a.csv",
        "name,target_at_most\na,-inf\n",
        "a.csv, line 2: field target_at_most: -inf can never be reached",
    ),
    "own target, no number": (
        "a.csv",
        "name,target_at_most\na,low\n",
        "a.csv, line 2: field target_at_most: must be a number, not text 'low'",
    ),
    "line": ("a.jsonl", '{"name": "a", "gpu": 1}\n{"name": "b"', "a.jsonl, line 2: Input data was truncated"),
    "line field": ("a.jsonl", '{"name": "a", "gpus": 1}\n', "a.jsonl, line 1: unknown field 'gpus'; did you mean gpu?"),
    "line type": (
        "a.jsonl",
        '{"name": "a", "steps": "x"}\n',
        "a.jsonl, line 1: field steps: must be a whole number, not text 'x'",
    ),
    "target": ("a.jsonl", '{"name": "a", "gpu": 1, "target": {}}', "line 1: field target: name a metric and either"),
    "line role": (
        "a.jsonl",
        '{"name": "a", "roles": {"ps": {"near": ["w"]}}}',
        "line 1: field roles.ps.near: there is no role",
    ),
    "yaml": ("a.yaml", "jobs: []", "a.yaml: field jobs: there must be at least one job"),
    "unknown": (
        "a.csv",
        "one,two\n1,2\n",
        "a.csv: the format is not clear from name and header; give --format, one of",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_told_in_one_sentence(tmp_path, case):
    name, content, sentence = BAD[case]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError) as told:
        open_workload(path)
    message = str(told.value)
    assert sentence in message
    assert message.startswith(str(path))
    assert "\n" not in message


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("job_id,submit_s\n1,2\n")
    with pytest.raises(UserError, match=r"a\.csv, line 1: field duration_s: there is no such column"):
        open_workload(path, "philly")


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(
        UserError, match="--format swf: there is no such format; choose one of yaml, jsonl, csv, philly"
    ) as told:
        open_workload(tmp_path / "a.csv", "swf")
    assert all(name in str(told.value) for name in FORMATS)


@pytest.mark.parametrize(
    "content", [gzip.compress(PHILLY.encode(), mtime=0)[:-9], b"\x1f\x8bnothing", b"name\n\xff\xfe\x00"]
)
def test_damaged_files(tmp_path, content):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.csv\.gz: (the gzip file is damaged|this is not a text file)"):
        open_workload(path, "philly")


def test_a_file_that_is_not_there(tmp_path):
    for name in ("a.csv", "a.yaml", "a.jsonl", "a.trace"):
        with pytest.raises(UserError, match=f"{name}: cannot be read: No such file"):
            open_workload(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        open_workload(tmp_path)


def test_zero_seconds_are_allowed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(PHILLY + "2,0,0,1,a\n")
    assert [job.seconds for job in open_workload(path).jobs] == [10, 0]


def test_blank_lines_and_windows_ends_are_read_over(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + PHILLY.replace("\n", "\r\n").encode() + b"\r\n\r\n2,1,3,1,b\r\n")
    assert [job.id for job in open_workload(path).jobs] == ["1", "2"]
