"""The same file is run again: what is done is kept, what is new or failed runs, and nothing is removed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headway.cli.app import app_for
from headway.core.errors import UserError

pytestmark = pytest.mark.timeout(290)

MODEL = "date +%N >> $HEADWAY_CHECKPOINT/model; echo ran"
GOOD = f"  - {{name: good, cpu: 100m, command: [sh, -c, '{MODEL}']}}\n"
FIXED_LATER = "  - {name: bad, cpu: 100m, command: [sh, -c, 'echo ran; test -e mended']}\n"


class Headway:
    """The command line in this process. A replica that does not connect counts as up at once."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        try:
            code = app_for(list(words))(list(words), standalone_mode=False) or 0
        except UserError as error:
            code = 2
            print(error, file=sys.stderr)
        out, err = self._capsys.readouterr()
        return code, out, err

    def run(self, *words: str, code: int = 0) -> tuple[dict, str]:
        given, out, err = self("run", "jobs.yaml", "--json", "--policy", "first-fit", *words)
        assert given == code, out + err
        return json.loads(out), err


@pytest.fixture
def headway(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headway.local.gang.UP_SECONDS", 0.0)
    return Headway(capsys)


def _write(folder: Path, *jobs: str) -> None:
    (folder / "jobs.yaml").write_text("nodes: [{name: here, cpu: 500m}]\njobs:\n" + "".join(jobs))


def _times(state: Path, job: str) -> int:
    return (state / "output" / job / "worker-0.log").read_text().count("ran")


def test_a_finished_run_is_kept_and_only_the_rest_runs(tmp_path, headway):
    state = tmp_path / ".headway/jobs"
    _write(tmp_path, GOOD, FIXED_LATER)
    result, said = headway.run(code=1)
    assert (result["finished"], result["failed"], said) == (1, 1, "")
    model = (state / "checkpoints/good/model").read_text()

    (tmp_path / "mended").touch()
    result, said = headway.run()
    assert (result["jobs"], result["finished"], result["failed"]) == (2, 2, 0)
    assert "finished before, is kept: good" in said
    assert "runs again from its checkpoint: bad" in said
    assert (_times(state, "good"), _times(state, "bad")) == (1, 2)
    assert (state / "checkpoints/good/model").read_text() == model

    _write(tmp_path, GOOD.replace("echo", "echo again; echo"), "  - {name: more, cpu: 100m, command: [echo, ran]}\n")
    result, said = headway.run()
    assert (result["jobs"], result["finished"]) == (2, 2), "a job that is no longer in the file is not reported"
    [old] = (state / "aside").iterdir()
    assert str(old.relative_to(tmp_path)) in said
    assert (old / "checkpoints/good/model").read_text() == model
    assert (state / "checkpoints/good/model").read_text() != model
    assert _times(state, "bad") == 2
    assert _times(state, "more") == 1

    log = (state / "run.log").read_text()
    result, said = headway.run()
    assert "nothing is left to run" in said
    assert result["finished"] == 2
    assert (state / "run.log").read_text() == log
    assert json.loads(headway("replay", str(state / "run.log"), "--json")[1])["differences"] == []


def test_fresh_sets_aside_what_the_log_names_and_clean_removes_only_that(tmp_path, headway):
    state, far = tmp_path / "mine", tmp_path / "far"
    for folder in (state, far / "user"):
        folder.mkdir(parents=True)
    (far / "user/weights").write_text("precious")
    (state / "checkpoints").symlink_to(far)
    (state / "output").mkdir()
    (state / "output/notes").write_text("precious")
    _write(tmp_path, GOOD)
    headway.run("--state", "mine")
    first = (far / "good/model").read_text()
    _, said = headway.run("--state", "mine", "--fresh")
    assert said == ""
    assert (far / "good/model").read_text() != first, "it started over, also behind a link"
    [old] = (state / "aside").iterdir()
    assert (old / "checkpoints/good/model").read_text() == first
    assert (old / "run.log").exists()
    (state / "aside/own").mkdir()

    code, out, err = headway("clean", "--state", "mine")
    assert code == 2
    assert out.startswith(f"mine/aside/{old.name}: checkpoints/good, output/good, run.log")
    assert err == "1 folder would be removed; add --yes to do it\n"
    assert old.exists()
    code, out, _ = headway("clean", "--state", "mine", "--yes")
    assert code == 0
    assert "KiB removed" in out
    assert not old.exists()
    assert (state / "aside/own").exists(), "Headway did not make it"
    assert (far / "good/model").exists()
    assert (far / "user/weights").read_text() == (state / "output/notes").read_text() == "precious"
    assert "nothing is set aside" in headway("clean", "--state", "mine")[1]


def test_a_folder_without_our_log_is_not_touched(tmp_path, headway):
    (tmp_path / "mine/checkpoints/good").mkdir(parents=True)
    (tmp_path / "mine/checkpoints/good/model").write_text("precious\n")
    _write(tmp_path, GOOD)
    headway.run("--state", "mine", "--fresh")
    assert (tmp_path / "mine/checkpoints/good/model").read_text().startswith("precious\n")
    (tmp_path / "mine/run.log").write_text("the log of another program\n")
    code, _, err = headway("run", "jobs.yaml", "--state", "mine", "--fresh")
    assert code == 2
    assert "not a line of a headway log" in err
    assert (tmp_path / "mine/run.log").read_text() == "the log of another program\n"


def test_state_belongs_to_the_file_from_wherever_it_is_run(tmp_path, headway, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        _write(tmp_path / name, GOOD)
    headway("run", "one/jobs.yaml", "--json")
    for name, said in (("one", "nothing is left to run"), ("two", "")):
        monkeypatch.chdir(tmp_path / "two")
        code, _, err = headway("run", f"../{name}/jobs.yaml", "--json", "--policy", "first-fit")
        assert code == 0, err
        assert said in err
        assert _times(tmp_path / name / ".headway/jobs", "good") == 1
    assert not (tmp_path / ".headway").exists()
    (tmp_path / "one/jobs.yml").write_text((tmp_path / "one/jobs.yaml").read_text())
    code, _, err = headway("run", "../one/jobs.yml")
    assert code == 2
    assert "another run (jobs.yaml" in err


def test_a_damaged_log_is_told_and_the_run_goes_on_from_the_good_part(tmp_path, headway):
    state = tmp_path / ".headway/jobs"
    _write(tmp_path, GOOD)
    headway.run()
    log = state / "run.log"
    log.write_bytes(log.read_bytes() + b"\xff junk\n")
    result, err = headway.run()
    assert result["finished"] == 1
    assert "the log is good up to line" in err
    assert (state / "run.log.damaged").read_bytes().endswith(b"junk\n")
    assert _times(state, "good") == 1, "what has finished is not run again"


def test_what_cannot_be_set_aside_or_removed_is_one_sentence(tmp_path, headway, monkeypatch):
    state = tmp_path / ".headway/jobs"
    _write(tmp_path, GOOD)
    headway.run()
    (state / "aside").write_text("mine")
    code, _, said = headway("run", "jobs.yaml", "--fresh")
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot be set aside" in said
    assert (state / "checkpoints/good/model").exists()
    (state / "aside").unlink()
    headway.run("--fresh")

    def refuses(path):
        raise PermissionError(13, "Permission denied", str(path / "run.png"))

    monkeypatch.setattr("shutil.rmtree", refuses)
    code, _, said = headway("clean", "jobs.yaml", "--yes")
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot be removed" in said
