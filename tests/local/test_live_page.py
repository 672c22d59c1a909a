"""The live page of a real run and of the queue, in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from chromium import Browser, needs_browser
from forked import headway

HOSTILE = "<img src=x onerror=alert(1)>"
TRAIN = """
import os, sys, time
from pathlib import Path
from headway import progress

with progress.track(total_steps=4000) as p:
    for step in range(1, 4001):
        p.report(step, loss=3.0 / step ** 0.5)
        time.sleep(0.05)
        if Path(sys.argv[1]).exists():
            break
"""
JOBS = f"""
nodes: [{{name: left, cpu: 1, memory: 1Gi}}]
jobs:
  - {{name: slow, user: '{HOSTILE}', cpu: 500m, memory: 200Mi, deadline: 30d, env: {{API_KEY: very-secret}},
     command: [python, train.py, go]}}
  - {{name: wrong, cpu: 300m, memory: 100Mi, command: [python, -c, 'raise SystemExit("{HOSTILE}")']}}
  - {{name: next, cpu: 600m, memory: 200Mi, command: [python, train.py, go]}}
"""
INLINE = """(() => {
const one = document.createElement("script");
one.textContent = "window.came_in = true";
document.body.append(one);
return window.came_in;
})()"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    for name, part in (("HOME", "home"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(tmp_path / part))
        (tmp_path / part).mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _address(text: str) -> str:
    found = re.search(r"page: (http://127\.0\.0\.1:\d+/[-\w]{32}/)", text)
    assert found, text
    return found.group(1)


@needs_browser
def test_a_real_run_in_a_real_browser(work: Path) -> None:
    said = work / "said"
    with said.open("wb") as output:
        run = subprocess.Popen(
            [sys.executable, "-m", "headway", "run", "jobs.yaml", "--page"], stdout=output, stderr=output
        )
    try:
        with Browser() as browser:
            while "page: " not in said.read_text() and run.poll() is None:
                time.sleep(0.1)
            address = _address(said.read_text())
            _watch(browser, address)
            _refused(browser, address)
            browser.open(address)
            browser.until("document.querySelector('#link')?.textContent == 'live'")
            (work / "go").touch()
            browser.until("document.querySelector('#link').textContent == 'the run is over'")
            assert "2 finished" in browser.value("document.querySelector('.counts').textContent")
            of_refused = "/favicon.ico"  # asked for by the browser itself, and refused as well
            assert [one for one in browser.complaints if of_refused not in one] == []
        assert run.wait(30) == 1, "a job failed"
    finally:
        run.terminate()
        run.wait()
    with pytest.raises(URLError, match="refused"):
        urlopen(address)


def _watch(browser: Browser, address: str) -> None:
    """Jobs, nodes, losses and reasons; as it goes on; in both schemes and on a phone."""
    browser.open(address)
    browser.until("document.querySelector('#link')?.textContent == 'live'")
    browser.until("document.querySelectorAll('#curves canvas').length")
    browser.until("document.querySelectorAll('span.failed').length")
    text = browser.value("document.body.innerText")
    for words in (HOSTILE, "needs 0.6 cpu", "0.5 cpu of 1 cpu", "in 30 d", "exit code 1"):
        assert words in text, text
    assert text.count(HOSTILE) >= 2, "the user, and what the failed job printed"
    whole = browser.value("document.documentElement.outerHTML")
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert "very-secret" not in whole
    assert "train.py" not in whole
    step = "Number(document.querySelector('td.step').textContent.split('/')[0])"
    before = browser.value(step)
    browser.until(f"{step} > {before}")
    colours = set()
    for width, dark in ((1200, False), (1200, True), (390, False), (390, True)):
        browser.look(width, dark=dark)
        browser.until(f"innerWidth == {width}")
        assert browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        colours.add(browser.value("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2
    assert browser.complaints == []
    assert browser.value(INLINE) is None
    browser.until("1")
    assert "Content Security Policy" in str(browser.complaints)
    browser.complaints.clear()


def _refused(browser: Browser, address: str) -> None:
    """Another name for this machine, as a hostile site would use it, and a wrong token."""
    for wrong in (address.replace("127.0.0.1", "hostile.example"), address[:-2] + "/"):
        browser.open(wrong)
        browser.until(f"location.href == {json.dumps(wrong)}")
        text = browser.until("document.body?.innerText")
        assert text.strip() in ("the page is at 127.0.0.1", "the address needs the token that Headway printed")
    assert browser.complaints
    browser.complaints.clear()


def test_the_queue_has_a_page_as_long_as_it_is_up(work: Path) -> None:
    up = headway("up", "--page")
    try:
        assert up.returncode == 0, up.stderr
        address = _address(up.stdout)
        assert headway("add", "--", "python", "train.py", "go").returncode == 0
        give_up = time.monotonic() + 20
        while "running" not in (text := urlopen(address).read().decode()):
            assert time.monotonic() < give_up, text
            time.sleep(0.1)
        assert ">train<" in text
        with pytest.raises(HTTPError, match="403"):
            urlopen(address.replace(address[-8:], "/"))
        assert _address(headway("up", "--page").stdout) == address
        card = work / "state/headway/queue/run.json"
        assert card.stat().st_mode & 0o077 == 0, "the address has the token: nobody else may read it"
    finally:
        headway("down")
    with pytest.raises(URLError, match="refused"):
        urlopen(address)
