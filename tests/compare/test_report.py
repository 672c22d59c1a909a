"""The report: one file that asks for nothing else, and that a real browser draws without a complaint."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headway.cli import main
from headway.compare.report import _fill, quantiles
from headway.compare.report_text import duration, in_one_unit, percent, takeaways

JOBS = "nodes: [{name: n, count: 2, gpu: 4}]\nsimulate: {start: 5, save: 3}\njobs:\n" + "".join(
    f"  - {{name: job-{i}, gpu: 1, replicas: {1 + i % 4}, seconds: {20 + 7 * i % 90}, submit: {3 * i}, "
    f"user: '<b>u{i % 3}'}}\n"
    for i in range(24)
)
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: `make browser` installs it")


def look(page: Path, width: int, *, dark: bool) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [
                BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", f"--user-data-dir={profile}", f"--window-size={width},900",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--enable-logging=stderr",
                "--virtual-time-budget=2000", "--dump-dom", f"file://{page}",
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip


def command(monkeypatch: pytest.MonkeyPatch, *words: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A comparison in bars, one in shares, one in which nothing finishes, one that takes no time, and a single run."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "jobs.yaml").write_text(JOBS)
    rows = [f"j{i},{2 * i},{30 + i % 90},{1 + i % 3}" for i in range(600)]
    (folder / "many.csv").write_text("\n".join(["name,submit,seconds,gpu", *rows]) + "\n")
    found = {name: folder / f"{name}.html" for name in ("bars", "shares", "one", "never", "zero")}
    with pytest.MonkeyPatch.context() as patch:
        command(
            patch, "compare", folder / "jobs.yaml", "--policies", "fifo,las,srtf", "-j", 1, "--report", found["bars"]
        )
        command(patch, "compare", folder / "many.csv", "--policies", "fifo,first-fit", "--cluster", "41x1",
                "-j", 1, "--no-bounds", "--report", found["shares"])  # fmt: skip
        for name, row in (("never", "a,0,10,64"), ("zero", "a,0,0,1")):
            (folder / f"{name}.csv").write_text(f"name,submit,seconds,gpu\n{row}\n")
            command(patch, "compare", folder / f"{name}.csv", "--policies", "fifo,srtf", "--cluster", "1x4", "-j", 1,
                    "--report", found[name])  # fmt: skip
        command(patch, "simulate", folder / "jobs.yaml", "--policy", "las", "--report", found["one"])
    return found


@pytest.mark.parametrize("name", ["bars", "shares", "one"])
def test_it_asks_for_nothing_else(pages: dict[str, Path], name: str) -> None:
    text = pages[name].read_text()
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", text), "something is fetched"
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "{{" not in text
    assert len(text) < 2_000_000


def test_what_it_says(pages: dict[str, Path]) -> None:
    text = pages["bars"].read_text()
    for words in (
        "mean completion",
        "clairvoyant",
        "area bound",
        "95 % interval",
        "How to reproduce".lower(),
        "By user",
    ):
        assert words in text
    assert "headway compare" in text
    assert "&lt;b&gt;u1" in text
    assert "<b>u1" not in text, "a user's name is text, not markup"
    assert "Which jobs got worse" not in pages["one"].read_text()


def test_the_data_are_those_of_the_runs(pages: dict[str, Path]) -> None:
    text = pages["bars"].read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [policy["name"] for policy in data["policies"]] == ["fifo", "las", "srtf"]
    assert len(data["curves"]["completion"]["las"]) == 24
    assert set(data["curves"]["ratio"]) == {"las", "srtf"}
    assert data["gantt"]["fifo"]["bars"]
    assert max(data["series"]["fifo"]["stalled"]) > 0
    many = pages["shares"].read_text()
    assert "shares" in json.loads(many.split('id="data">')[1].split("</script>")[0])["gantt"]["fifo"]


USED = """
<script>
let tallest = 0;
for (const button of document.querySelectorAll("button:not(.save)")) button.click();
for (const place of document.querySelectorAll(".plot")) {
  const drawn = place.querySelector("svg");
  if (!drawn) continue;
  const box = drawn.getBoundingClientRect();
  for (const share of [0, 0.3, 0.6, 1]) for (const down of [0.1, 0.5, 0.9]) {
    drawn.dispatchEvent(new PointerEvent("pointermove", {
      bubbles: true, clientX: box.left + share * box.width, clientY: box.top + down * box.height }));
    for (const tip of place.querySelectorAll(".tip")) tallest = Math.max(tallest, tip.offsetHeight);
  }
  for (const key of ["ArrowLeft", "ArrowRight"]) place.dispatchEvent(new KeyboardEvent("keydown", { key }));
}
const tips = [...document.querySelectorAll(".tip")].filter((tip) => tip.textContent);
document.documentElement.dataset.tips = String(tips.length);
document.documentElement.dataset.tallest = String(tallest);
</script>
"""


@needs_browser
def test_a_hand_on_everything(pages: dict[str, Path], tmp_path: Path) -> None:
    """Every button pressed, every chart pointed at: no complaint, and the charts answer."""
    used = tmp_path / "used.html"
    used.write_text(pages["bars"].read_text().replace("</body>", f"{USED}</body>"))
    done = look(used, 1200, dark=False)
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    tips = re.search(r'data-tips="(\d+)"', done.stdout)
    tallest = re.search(r'data-tallest="(\d+)"', done.stdout)
    assert tallest is not None
    assert 0 < int(tallest.group(1)) < 200, "a tip is a few lines of text"
    assert tips is not None
    assert int(tips.group(1)) >= 3, "the policies of the curves are hidden now; the strips and nodes answer"


@needs_browser
@pytest.mark.parametrize(
    ("name", "charts", "width", "dark"),
    [
        ("bars", 6, 1200, False), ("bars", 6, 390, True), ("shares", 6, 1200, True), ("one", 5, 390, False),
        ("never", 6, 1200, False), ("zero", 6, 1200, False),
    ],
)  # fmt: skip
def test_a_real_browser_draws_it(pages: dict[str, Path], name: str, charts: int, width: int, dark: bool) -> None:
    done = look(pages[name], width, dark=dark)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints
    assert done.returncode == 0
    assert f'data-drawn="{charts}"' in done.stdout
    assert f'data-theme="{"dark" if dark else "light"}"' in done.stdout
    assert done.stdout.count("<svg") >= charts
    assert "NaN" not in re.sub(r"(?s)<script.*?</script>", "", done.stdout), "a coordinate that is none"


def test_words_for_numbers() -> None:
    assert [duration(value) for value in (0.0, 0.05, 59.0, 600.0, 7200.0, 172_800.0)] == [
        "0.00 s", "0.05 s", "59.0 s", "10.0 min", "2.00 h", "2.00 d",
    ]  # fmt: skip
    assert duration(None) == ""
    say = in_one_unit([3600.0 * 5, 3600.0 * 60])
    assert (say(3600.0 * 5), say(1800.0)) == ("0.21 d", "0.021 d")
    assert percent(0.1234) == "12.3 %"


def test_curves_are_small_and_keep_the_slowest() -> None:
    import numpy as np

    values = np.arange(10_000, dtype=float)
    values[3] = np.nan
    found = quantiles(values)
    assert len(found) == 240
    assert (found[0], found[-1]) == (0.0, 9999.0)
    assert quantiles(np.array([np.nan])) == []


def test_marks_in_parts_are_left_alone() -> None:
    assert _fill("a {{x}} b {{y}} c", x="{{y}}", y="2") == "a {{y}} b 2 c"


def test_nothing_finished_is_said() -> None:
    class Told:
        rows = ({"jct": {"mean": None}, "finished": 0},)
        baseline = "fifo"
        bounds: dict[str, Any] = {}  # noqa: RUF012

    assert takeaways(Told()) == ["No job finished."]
