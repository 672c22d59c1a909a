"""The report: one file that asks for nothing else, and that a real browser draws without a complaint."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from chromium import BROWSER, needs_browser
from headway.cli import main
from headway.compare.report import _fill, quantiles
from headway.compare.report_text import percent, takeaways, times
from headway.core.text import duration, in_one_unit

JOBS = "nodes: [{name: n, count: 2, gpu: 4}]\nsimulate: {start: 5, save: 3}\njobs:\n" + "".join(
    f"  - {{name: job-{i}, gpu: 1, replicas: {1 + i % 4}, seconds: {20 + 7 * i % 90}, submit: {3 * i}, "
    f"user: '<b>u{i % 3}'}}\n"
    for i in range(24)
)


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
    found = {name: folder / f"{name}.html" for name in ("bars", "shares", "one", "never", "zero", "long")}
    with pytest.MonkeyPatch.context() as patch:
        command(
            patch, "compare", folder / "jobs.yaml", "--policies", "fifo,las,srtf", "-j", 1, "--report", found["bars"]
        )
        command(patch, "compare", folder / "many.csv", "--policies", "fifo,first-fit", "--cluster", "41x1",
                "-j", 1, "--no-bounds", "--report", found["shares"])  # fmt: skip
        own = folder / "mine.py"
        names = [f"a_policy_with_a_rather_long_name_{number}" for number in range(5)]
        own.write_text("".join(f"from headway.policies.baselines.fifo import first_fit as {name}\n" for name in names))
        command(patch, "compare", folder / "many.csv", "--policies", ",".join([*(f"{own}:{n}" for n in names), "srtf"]),
                "--cluster", "4x4", "-j", 1, "--report", found["long"])  # fmt: skip
        for name, row in (("never", "a,0,10,64"), ("zero", "a,0,0,1")):
            (folder / f"{name}.csv").write_text(f"name,submit,seconds,gpu\n{row}\n")
            command(patch, "compare", folder / f"{name}.csv", "--policies", "fifo,srtf", "--cluster", "1x4", "-j", 1,
                    "--report", found[name])  # fmt: skip
        command(
            patch, "simulate", folder / "jobs.yaml", "--policy", "las", "--cluster", "20x4", "--report", found["one"]
        )
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


MEASURED = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, measure = async () => {
  for (const [name, text] of Object.entries(pages)) for (const width of [1440, 1024, 390]) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 900; frame.srcdoc = text;
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; });
    const inside = frame.contentDocument, all = (query) => [...inside.querySelectorAll(query)];
    const wide = all(".scroll").map((place) => place.scrollWidth - place.clientWidth);
    const bars = all("#gantt rect[rx]").map((bar) => bar.getAttribute("fill"));
    const style = inside.defaultView.getComputedStyle(inside.documentElement);
    const used = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => style.getPropertyValue(`--s${number}`).trim());
    const axes = all("#held svg > text, #gantt svg > text").map((text) => text.textContent);
    const unit = (text) => (/^[\\d.,]+ (s|min|h|d)$/.exec(text) || [])[1];
    const curves = all("[data-kind=completion], [data-kind=wait]").map((place) =>
      [...new Set([...place.querySelectorAll("svg > text")].map((text) => unit(text.textContent)).filter(Boolean))]);
    const said = inside.querySelector("header.top + main > dl.assumptions");
    document.body.dataset[`${name}${width}`] = JSON.stringify({
      table: Math.max(0, ...wide), page: inside.documentElement.scrollWidth - inside.documentElement.clientWidth,
      bars: bars.length, policies: bars.filter((fill) => used.includes(fill)).length,
      units: [...new Set(axes.map(unit).filter(Boolean))], curves,
      said: said ? said.textContent : "" });
  }
};
measure().then(() => { document.body.dataset.done = "1"; });
</script>"""


@pytest.fixture(scope="module")
def measured(pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The pages in frames of three widths, as a browser lays them out."""
    texts = {name: pages[name].read_text() for name in ("bars", "long", "one")}
    wrapped = tmp_path_factory.mktemp("measured") / "all.html"
    wrapped.write_text(MEASURED % json.dumps(texts).replace("<", "\\u003c"))
    done = look(wrapped, 1500, dark=False)
    assert 'data-done="1"' in done.stdout
    found = re.findall(r'data-(\w+?)(1440|1024|390)="([^"]*)"', done.stdout)
    return {f"{name} {width}": json.loads(unescape(text)) for name, width, text in found}


@needs_browser
@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("name", ["bars", "long", "one"])
def test_no_table_is_cut(measured: dict[str, dict[str, Any]], name: str, width: int) -> None:
    found = measured[f"{name} {width}"]
    assert (found["table"], found["page"]) == (0, 0), "something is wider than the page"


@needs_browser
def test_jobs_have_no_colour_of_a_policy_and_an_axis_has_one_unit(measured: dict[str, dict[str, Any]]) -> None:
    found = measured["bars 1440"]
    assert found["bars"] > 20
    assert found["policies"] == 0
    assert all(len(measured[page]["units"]) == 1 for page in ("bars 1440", "long 1440", "one 390"))
    curves = [units for found in measured.values() for units in found["curves"]]
    assert len(curves) >= 9
    assert all(len(units) <= 1 for units in curves), "a logarithmic axis over time has one unit, too"
    assert sum(len(units) for units in curves) > len(curves) / 2


@needs_browser
def test_assumptions_are_under_the_title(measured: dict[str, dict[str, Any]]) -> None:
    said = measured["bars 1440"]["said"]
    for words in ("rigid: every job keeps", "Amdahl's law", "a start 5 s, a save 3 s", "declared seconds"):
        assert words in said


def test_one_unit_per_column_and_no_multiple_of_nothing(pages: dict[str, Path]) -> None:
    columns: dict[str, set[str]] = {}
    for label, text in re.findall(r'data-label="([^"]*)">([^<]*)', pages["long"].read_text()):
        if unit := re.fullmatch(r"[\d.,]+ (s|min|h|d)", text):
            columns.setdefault(label, set()).add(unit.group(1))
    assert {"median", "makespan", "longer by, mean"} <= set(columns)
    assert all(len(units) == 1 for units in columns.values())
    assert times(0.0004) == "under 0.001"
    assert times(0.0) == "0.000"


def test_a_hint_where_nothing_contends_is_on_the_page(pages: dict[str, Path]) -> None:
    assert "Jobs hardly compete here" in pages["one"].read_text()
    assert "Jobs hardly compete here" not in pages["bars"].read_text()


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
