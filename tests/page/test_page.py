"""The live page: what it shows of a view, whom it answers, and that nobody who looks on can hold up the run."""

from __future__ import annotations

import gzip
import http.client
import json
import resource
import socket
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from headway.cli.machine.page_feed import MOST_POINTS, LossCurve
from headway.page.render import MOST_ALIVE, MOST_OVER, curves, live, page
from headway.page.server import HEADERS, MOST_PAGES, STATIC, PageServer
from headway.page.view import Amount, Curve, JobView, NodeView, RunView, Span

HOSTILE = "<script>alert(1)</script>\"'&\n\ndata: x\r\x1b[2J\u2028"


def _view(*jobs: JobView, at: float = 1000.0, curve: Curve | None = None) -> RunView:
    node = NodeView("left", (Amount("cpu", 500, 2000), Amount("memory", 0, 4096)))
    return RunView("jobs.yaml", "headway", at, jobs, (node,), (curve,) if curve else ())


@pytest.fixture
def server():
    one = PageServer(_view(JobView(name="a", state="running", step=3, steps=9)))
    one.address = urlsplit(one.start())
    yield one
    one.close()


def _ask(server, path: str, *, host: str = "", method: str = "GET") -> tuple[int, dict[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)) as line:
        line.request(method, path, headers={"Host": host} if host else {})
        answer = line.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def _stream(server, room: int = 0) -> socket.socket:
    """An open page; with `room` a browser that is slow: so much fits into its side of the connection."""
    line = socket.socket()
    if room:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    line.settimeout(10)
    line.connect(("127.0.0.1", server.address.port))
    line.sendall(f"GET {server.address.path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return line


def _read_until(line: socket.socket, words: bytes) -> bytes:
    found = b""
    while words not in found:
        part = line.recv(65536)
        assert part, found
        found += part
    return found


# ── what it shows ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_text_of_a_job_is_escaped():
    job = JobView(name=HOSTILE, state=HOSTILE, user=HOSTILE, where=HOSTILE, gpus=HOSTILE, why=HOSTILE,
                  spans=(Span(990.0, HOSTILE),))  # fmt: skip
    view = RunView(HOSTILE, HOSTILE, 1000.0, (job,), (NodeView(HOSTILE, (Amount(HOSTILE, 1, 2),)),),
                   (Curve(HOSTILE, (1,), (float("nan"),)),))  # fmt: skip
    text = page(view, 1000.0)
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "\"'&" not in text
    assert "\x1b" not in text
    assert "\ndata:" not in text, "no line of a job's text is a line of the stream"
    assert "\n" not in curves(view)
    assert json.loads(curves(view))[0]["losses"] == [None]


def test_reasons_deadlines_and_endings_are_told():
    text = live(_view(
        JobView(name="w", state="waiting", why="needs 1 cpu; 0 cpu is free", starts="14:05-14:20", done="15:00-16:00"),
        JobView(name="late", state="running", deadline=1060.0, left=600.0, gpus="0: 35 %, 1.1 GiB"),
        JobView(name="f", state="failed", is_over=True, why="worker-0 ended with exit code 1", deadline=2000.0),
    ), 1000.0)  # fmt: skip
    for words in ("needs 1 cpu; 0 cpu is free", '<span class="bad">in 60 s</span>', "exit code 1", "10 min",
                  "GPU 0: 35 %, 1.1 GiB", "0.5 cpu of 2 cpu", "1 waiting, 1 running, 1 failed",
                  "14:05-14:20", "15:00-16:00"):  # fmt: skip
        assert words in text
    assert '<span class="bad">missed</span>' in text


def test_times_go_on_while_nothing_else_does():
    running = JobView(name="r", state="running", deadline=1600.0, left=300.0)
    waiting = JobView(name="w", state="waiting", left=45.0)
    text = live(_view(running, waiting), 1250.0)
    assert "in 6 min" in text
    assert "<div>50 s</div>" in text
    assert "45 s" in text
    assert "<div>0 s</div>" in live(_view(running), 1599.0)
    assert "missed" in live(_view(running), 1601.0)


def test_of_many_jobs_those_with_a_deadline_stay():
    due = JobView(name="due", state="waiting", deadline=5000.0)
    many = [JobView(name=f"w{number}", state="waiting") for number in range(5000)]
    over = [JobView(name=f"o{number}", state="finished", is_over=True, since=number) for number in range(500)]
    before = time.perf_counter()
    text = live(_view(*many, due, *over), 1000.0)
    assert time.perf_counter() - before < 1.0
    assert text.count("<tr>") == 1 + MOST_ALIVE + MOST_OVER
    assert ">due<" in text
    assert ">o499<" in text
    assert f"{5501 - MOST_ALIVE - MOST_OVER} of them not shown" in text


def test_a_curve_is_thinned_out_and_goes_back_with_its_job():
    curve = LossCurve()
    for step in range(1, 10_001):
        curve.add(step, 1.0 / step)
    view = curve.view("a")
    assert len(view.steps) <= MOST_POINTS + 1
    assert (view.steps[0], view.steps[-1]) == (1, 10_000)
    assert max(second - first for first, second in zip(view.steps, view.steps[1:], strict=False)) <= 64
    curve.add(500, 2.0)
    view = curve.view("a")
    assert (view.steps[-1], view.losses[-1]) == (500, 2.0)
    assert list(view.steps) == sorted(set(view.steps))


def test_what_the_browser_loads_is_small_and_its_licences_are_kept():
    vendored = ["htmx.min.js", "hx-sse.min.js", "uPlot.iife.min.js", "uPlot.min.css"]
    assert sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in vendored) < 40_000
    assert "Zero-Clause BSD" in (STATIC / "LICENSE.htmx.txt").read_text()
    assert "MIT" in (STATIC / "LICENSE.uPlot.txt").read_text()
    text = page(_view(), 1000.0)
    assert "http://" not in text
    assert "https://" not in text
    assert " style=" not in text
    assert " on" not in text.replace(" on this", "")
    assert "defer" not in text, "htmx would begin before its extension is there: 2 of 40 pages never connected"


# ── whom it answers ─────────────────────────────────────────────────────────────────────────────────────────


def test_only_who_has_the_token_sees_anything(server):
    path = server.address.path
    assert _ask(server, path)[0] == 200
    for wrong in ("/", "/events", "/page.js", path[:-2] + "/", path[:-1] + "x/", path[:-2] + "/events", "/%ff/", "//"):
        status, _, text = _ask(server, wrong)
        assert status == 403, wrong
        assert text == "the address needs the token that Headway printed\n"


@pytest.mark.parametrize(
    "host", ["hostile.example", "hostile.example:80", "127.0.0.1.hostile.example", "[::1", "0.0.0.0"]
)
def test_a_name_of_another_site_is_refused(server, host):
    assert _ask(server, server.address.path, host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8123", "LOCALHOST:1", "[::1]:9"])
def test_a_tunnel_with_another_port_is_answered(server, host):
    assert _ask(server, server.address.path, host=host)[0] == 200


def test_it_listens_on_the_loopback_address_only(server):
    assert server.address.hostname == "127.0.0.1"
    with closing(socket.socket()) as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", server.address.port))


def test_headers_files_and_methods(server):
    path = server.address.path
    for file in ("", "page.js", "page.css", "icon.svg", "htmx.min.js"):
        status, headers, _ = _ask(server, path + file)
        assert status == 200
        assert HEADERS.items() <= headers.items()
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert "Set-Cookie" not in _ask(server, path)[1]
    for file in ("README.md", "..%2Fserver.py", "%2e%2e/server.py", "nothing.js", "%00.js", "a/b"):
        assert _ask(server, path + file)[0] in (403, 404), file
    assert _ask(server, path, method="POST")[0] == 405


# ── the stream ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_stream_has_the_newest_view_and_says_when_the_run_is_over(server):
    with closing(_stream(server)) as line:
        first = _read_until(line, b"event: curves")
        assert b"text/event-stream" in first
        assert b"3/9" in first
        server.publish(_view(JobView(name="a", state="running", step=4, steps=9), curve=Curve("a", (4,), (0.5,))))
        assert b'"losses":[0.5]' in _read_until(line, b'"job":"a"')
        server.publish(_view(JobView(name="a", state="finished", is_over=True, step=9, steps=9)))
        server.close()
        last = _read_until(line, b"event: over")
        assert b"9/9" in last, "the end of the run is shown"
    with pytest.raises(OSError, match="refused"):
        _ask(server, server.address.path)


def test_many_pages_and_slow_browsers_do_not_hold_up_the_run(server, monkeypatch):
    """As many as may be open, none of which reads: publishing takes no time, nothing piles up, the run ends in time."""
    monkeypatch.setattr("headway.page.server.DRAW_SECONDS", 0.01)
    jobs = [JobView(name=f"job-{number}", state="running", where="x" * 300) for number in range(MOST_ALIVE)]
    lines = [_stream(server, room=4096) for _ in range(MOST_PAGES)]
    _until(lambda: len(server._pages) == MOST_PAGES)
    assert _ask(server, server.address.path + "events")[0] == 503
    slowest, memory = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(100):
        view, drawn = _view(*jobs, at=2000.0 + number), server._drawn.number
        before = time.perf_counter()
        server.publish(view)
        slowest = max(slowest, time.perf_counter() - before)
        _until(lambda drawn=drawn: server._drawn.number > drawn)
    sent = MOST_PAGES * 100 * len(server._drawn.live)
    assert sent > 300e6, "all that was drawn would be much"
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) < sent / 4
    assert slowest < 0.01
    assert _ask(server, server.address.path)[0] == 200
    before = time.monotonic()
    server.close()
    assert time.monotonic() - before < 4.0
    for line in lines:
        line.close()


def test_a_page_that_is_gone_makes_room(server):
    for line in [_stream(server) for _ in range(MOST_PAGES)]:
        _read_until(line, b"event: curves")
        line.close()
    _until(lambda: server.publish(_view(at=time.time())) or not server._pages)


def _until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)
