"""A real Prometheus over a running scheduler: every query of the dashboard and of the alerts has rows there.

Its log lines are JSON meanwhile.
"""

from __future__ import annotations

import json
import re

import pytest

from prometheus import alerts, free_port, labels_of, needs_prometheus, panels, series_of, start_prometheus

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180), needs_prometheus]
COMPARED = re.compile(r"\s(==|!=|>=|<=|>|<)\s+[0-9.]+\s*$")
FOUND_BY_PROMETHEUS = {"namespace"}
"""Labels that come from where a target was found, not from the scheduler."""


@pytest.fixture
def watched(measured):
    """A scheduler with jobs in all stages, and a Prometheus that has seen them."""
    port = free_port()
    measured.start(
        "--metrics-listen", f"127.0.0.1:{port}", "--measure", "kubelet", "--policy", "learned", "--log-format", "json"
    )
    prometheus = start_prometheus(measured.folder, f"127.0.0.1:{port}")
    try:
        measured.submit("ends", {"worker": {"replicas": 2}}, ["--steps", "3"], queue="team-a")
        measured.submit("stays", {"worker": {"replicas": 1}}, ["--steps", "9999"], queue="team-a")
        measured.submit("waits", {"worker": {"replicas": 1, "cpu": "900"}}, [], queue="team-b")
        measured.wait("ends", "Succeeded", seconds=60)
        prometheus.wait("headway_used_cores > 0")
        prometheus.wait('headway_jobs_ended_total{state="finished"}')
        prometheus.wait('headway_pending_jobs{queue="team-b"}')
        prometheus.wait("rate(headway_jobs_ended_total[1m])")
        yield measured, prometheus
    finally:
        prometheus.process.kill()
        prometheus.process.wait()


def test_every_panel_and_every_alert_finds_its_metrics(watched):
    schedule, prometheus = watched
    known = set(prometheus.ask("label/__name__/values"))
    for title, queries in panels().items():
        for query in queries:
            check_names(prometheus, query, known)
            assert prometheus.rows(query.removesuffix(" or vector(0)")), f"panel {title!r} is empty: {query}"
    for alert in alerts():
        query = alert["expr"]
        check_names(prometheus, query, known)
        for part in re.split(
            r"\sand\s", query.removeprefix("absent(").removesuffix(")") if "absent(" in query else query
        ):
            left = COMPARED.sub("", part)
            rows = prometheus.rows(left) or prometheus.rows(re.sub(r"\{[^}]*\}", "", left))
            assert rows, f"{alert['alert']} asks for what is not there: {left}"
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, [rule for rule in rules if rule["health"] != "ok"]
    firing = {one["labels"]["alertname"] for one in prometheus.ask("alerts")["alerts"]}
    assert firing == {"HeadwayJobsWaitInVain"}, "of a scheduler that is well, with one job too large"
    schedule.kill()
    prometheus.wait('ALERTS{alertname="HeadwayDown"}', seconds=30)
    told = [json.loads(line) for line in schedule.words().splitlines()]
    ended = [one for one in told if one.get("job") == f"{schedule.namespace}/ends"]
    assert [one["message"].split(": ")[-1] for one in ended][:2] == ["starting", "running"], told
    assert all(isinstance(one["cycle"], int) for one in ended), ended


def check_names(prometheus, query: str, known: set[str]) -> None:
    assert series_of(query), query
    assert series_of(query) <= known, f"{series_of(query) - known} is no metric of the scheduler: {query}"
    there = set(FOUND_BY_PROMETHEUS)
    for name in series_of(query):
        there |= {label for one in prometheus.ask("series", **{"match[]": name}) for label in one}
    assert labels_of(query) <= there, f"{labels_of(query) - there} is no label there: {query}"
