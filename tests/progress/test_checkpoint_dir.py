"""`checkpoint_dir()` names a folder that is there."""

from __future__ import annotations

from headway import progress


def test_the_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CHECKPOINT", str(tmp_path / "some/where"))
    assert progress.checkpoint_dir() == tmp_path / "some/where"
    assert (tmp_path / "some/where").is_dir()


def test_a_folder_that_cannot_be_made_is_named_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWAY_CHECKPOINT", str(tmp_path / "file/below"))
    assert progress.checkpoint_dir() == tmp_path / "file/below"
