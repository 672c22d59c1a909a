"""What docs/workloads.md shows works as shown."""

from __future__ import annotations

import re
from pathlib import Path

from headway.workload.cluster import open_cluster
from headway.workload.jobsfile import load
from headway.workload.models import WEIGHTS
from headway.workload.open import CSV_COLUMNS, FORMATS, open_workload
from headway.workload.settings import NAMES

TEXT = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()


def test_every_format_column_setting_and_model_is_told():
    for name in (*FORMATS, *CSV_COLUMNS):
        assert f"`{name}`" in TEXT, name
    told = set(re.findall(r"`([a-z_]+)`", TEXT))
    assert set(NAMES) - told <= {"jobs", "seed"}
    for models in WEIGHTS.values():
        assert all(model in TEXT for model in models)


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "philly_jobs.csv.gz").write_text("job_id,submit_s,duration_s,num_gpus,vc\n1,0,5,1,a\n")
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(code, "docs/workloads.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "philly/philly_jobs 1 ()"
    assert len(printed) == 1 + 8


def test_the_files_shown_are_read(tmp_path):
    table = re.search(r"    name,submit.*?\n\n", TEXT, re.DOTALL)
    assert table
    (tmp_path / "w.csv").write_text(re.sub(r"^    ", "", table.group(), flags=re.MULTILINE))
    bert, sweep = open_workload(tmp_path / "w.csv").jobs
    assert (bert.seconds, bert.roles[0].max, bert.deadline, sweep.submit) == (7200, 16, 10800, 300)
    sweep, cluster = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "c.yaml").write_text(cluster)
    assert len(open_cluster(tmp_path / "c.yaml")) == 24
    (tmp_path / "s.yaml").write_text(sweep)
    names = [job.id for job in load(tmp_path / "s.yaml").jobs]
    assert (len(names), names[0], names[-1]) == (6, "mlp-lr0-1-seed0", "mlp-lr0-01-seed2")
