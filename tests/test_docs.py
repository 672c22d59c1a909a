"""What the documentation shows is run: Python blocks whole, commands in virtual time too, others by their options."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from forked import headway

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- not run: [^\n]*-->\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CHEAP = ("simulate", "replay", "compare", "generate")


def _blocks(page: Path, language: str) -> list[str]:
    return [text for skip, kind, text in BLOCK.findall(page.read_text()) if kind == language and not skip]


def _commands(page: Path) -> list[list[str]]:
    lines = "\n".join(_blocks(page, "sh")).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines if line.startswith(("headway ", ".venv/bin/headway "))]
    return [line[1:] for line in words if len(line) > 1]


@cache
def _help(*words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        done = headway(*words, "--help")
    return done.stdout if done.returncode == 0 else ""


def _documented(kind: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, kind)]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", _documented("python"), ids=_name)
def test_python_blocks_run(page, tmp_path):
    if page.name == "ARCHITECTURE.md":
        pytest.skip("shows the loop itself, which tests/cycle runs")
    text = "\n\n".join(_blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", _documented("sh"), ids=_name)
def test_commands_and_options_exist(page):
    for words in _commands(page):
        depth = 2 if words[0] in ("lab", "predict", "learn") and len(words) > 1 and not words[1].startswith("-") else 1
        text = _help(*words[:depth])
        assert text, f"there is no command: headway {' '.join(words)}"
        if words[:2] == ["lab", "kubectl"]:
            continue
        ours = words[: words.index("--")] if "--" in words else words  # then comes a command of the user
        for option in [word.split("=")[0] for word in ours if word.startswith("--")]:
            assert option in text, f"headway {' '.join(words[:depth])} has no {option}"


@pytest.mark.parametrize("page", _documented("sh"), ids=_name)
def test_commands_in_virtual_time_run(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for number, text in enumerate(_blocks(page, "python")):
        (tmp_path / ("mine.py" if "def " in text else f"block{number}.py")).write_text(text)
    for words in _commands(page):
        files = [word for word in words[1:] if "/" in word and not word.startswith("-")]
        is_cheap = words[0] in CHEAP or words[:2] == ["learn", "beliefs"]
        if not is_cheap or any(not (tmp_path / file.split(":")[0]).exists() for file in files):
            continue
        if words[0] in ("simulate", "compare") and not any((tmp_path / word).is_file() for word in words):
            continue
        done = headway(*words, folder=tmp_path)
        assert done.returncode == 0, f"headway {' '.join(words)}: {done.stdout[-500:]}{done.stderr[-1500:]}"
        assert page.name != "compare.md" or "hardly compete" not in done.stdout, (
            "its first example tells policies apart"
        )


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_shows_both_commands():
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text
