"""Alert rules: each fires on what it is for, none on a scheduler that is well; each has a page that says what to do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from headway.kube.telemetry.figures import Figures
from headway.kube.telemetry.metrics import Metrics, Sources
from prometheus import ALERTS, alerts, needs_prometheus, panels, series_of

PAGE = Path(__file__).parents[2] / "docs/alarms.md"
AT = 'job="headway", instance="a"'
WELL = {
    f'headway_info{{{AT}, version="1"}}': "1x100",
    f"headway_leads{{{AT}}}": "1x100",
    f'headway_thread_age_seconds{{{AT}, thread="decider"}}': "5x100",
    f"headway_process_start_time_seconds{{{AT}}}": "1000x100",
    f'headway_cycle_seconds_bucket{{{AT}, le="1"}}': "0+100x100",
    f'headway_cycle_seconds_bucket{{{AT}, le="10"}}': "0+100x100",
    f'headway_cycle_seconds_bucket{{{AT}, le="+Inf"}}': "0+100x100",
    f'headway_watch_age_seconds{{{AT}, kind="Pod"}}': "50x100",
    f'headway_watch_lists_total{{{AT}, kind="Pod"}}': "0+0.1x100",
    f'headway_writes_queued{{{AT}, rank="bind"}}': "20x100",
    f'headway_writes_queued{{{AT}, rank="event"}}': "900x100",
    f'headway_api_requests_total{{{AT}, kind="bind", code="200"}}': "0+100x100",
    f'headway_api_requests_total{{{AT}, kind="bind", code="409"}}': "0+1x100",
    f'headway_api_requests_total{{{AT}, kind="bind", code="0"}}': "0+1x100",
    f'headway_api_requests_total{{{AT}, kind="bind", code="403"}}': "0x100",
    f'headway_api_request_seconds_bucket{{{AT}, le="0.1"}}': "0+100x100",
    f'headway_api_request_seconds_bucket{{{AT}, le="3"}}': "0+100x100",
    f'headway_api_request_seconds_bucket{{{AT}, le="+Inf"}}': "0+100x100",
    f"headway_faults_total{{{AT}}}": "0x100",
    f"headway_frozen_jobs{{{AT}}}": "0x100",
    f'headway_pending_jobs{{{AT}, queue="q", reason="NotEnoughFree"}}': "40x100",
    f'headway_pending_jobs{{{AT}, queue="q", reason="LargerThanAnyNode"}}': "0x100",
    f'headway_longest_wait_seconds{{{AT}, queue="q"}}': "7200x100",
    f'headway_bind_seconds_bucket{{{AT}, le="60"}}': "0+100x100",
    f'headway_bind_seconds_bucket{{{AT}, le="900"}}': "0+100x100",
    f'headway_bind_seconds_bucket{{{AT}, le="+Inf"}}': "0+100x100",
    f'headway_jobs_ended_total{{{AT}, queue="q", state="finished"}}': "0+1x100",
    f'headway_jobs_ended_total{{{AT}, queue="q", state="failed"}}': "0+0.3x100",
    f"headway_prediction_error_ratio_sum{{{AT}}}": "0+0.2x100",
    f"headway_prediction_error_ratio_count{{{AT}}}": "0+1x100",
    f'headway_settings_total{{{AT}, taken="true"}}': "0+1x100",
    f'headway_settings_total{{{AT}, taken="false"}}': "0x100",
    f'headway_guard{{{AT}, mode="on"}}': "1x100",
    f'headway_guard{{{AT}, mode="off"}}': "0x100",
}
"""A hundred minutes, a value each."""
BY_METRIC = {
    "HeadwayDown": ("headway_info{", "_x100"),
    "HeadwayNobodyLeads": ("headway_leads{", "0x100"),
    "HeadwayTwoLead": ("headway_leads{", "2x100"),
    "HeadwayThreadHangs": ("headway_thread_age", "10+60x100"),
    "HeadwayRestartsOften": ("headway_process_start", "0+1x100"),
    "HeadwayCyclesSlow": ('headway_cycle_seconds_bucket{job="headway", instance="a", le="1"}', "0x100"),
    "HeadwayWatchSilent": ("headway_watch_age", "0+60x100"),
    "HeadwayListsOften": ("headway_watch_lists", "0+1x100"),
    "HeadwayWritesPileUp": ('headway_writes_queued{job="headway", instance="a", rank="bind"}', "300x100"),
    "HeadwayWritesFail": (
        'headway_api_requests_total{job="headway", instance="a", kind="bind", code="0"}',
        "0+50x100",
    ),
    "HeadwayWritesRefused": (
        'headway_api_requests_total{job="headway", instance="a", kind="bind", code="403"}',
        "0+1x100",
    ),
    "HeadwayApiServerSlow": ('headway_api_request_seconds_bucket{job="headway", instance="a", le="0.1"}', "0x100"),
    "HeadwayFaults": ("headway_faults_total", "0+1x100"),
    "HeadwayJobsFrozen": ("headway_frozen_jobs", "1x100"),
    "HeadwayJobsWaitInVain": (
        'headway_pending_jobs{job="headway", instance="a", queue="q", reason="LargerThanAnyNode"}',
        "2x100",
    ),
    "HeadwayJobWaitsLong": ("headway_longest_wait", "90000x100"),
    "HeadwayStartsSlow": ('headway_bind_seconds_bucket{job="headway", instance="a", le="60"}', "0x100"),
    "HeadwayManyJobsFail": (
        'headway_jobs_ended_total{job="headway", instance="a", queue="q", state="failed"}',
        "0+3x100",
    ),
    "HeadwayPredictionsFarOff": ("headway_prediction_error_ratio_sum", "0+2x100"),
    "HeadwaySettingsRefused": ('headway_settings_total{job="headway", instance="a", taken="false"}', "0x60 1x40"),
    "HeadwayGuardOff": ('headway_guard{job="headway", instance="a", mode="off"}', "1x100"),
}
"""By alert: the series that differs from a scheduler that is well, and how it is then."""
MORE = {"HeadwayVersionsDiffer": {'headway_info{job="headway", instance="b", version="2"}': "1x100"}}


def series(alert: str = "") -> list[dict]:
    found = {**WELL, **MORE.get(alert, {})}
    if alert in BY_METRIC:
        begins, values = BY_METRIC[alert]
        (name,) = [one for one in found if one.startswith(begins)]
        found[name] = values
    return [{"series": name, "values": values} for name, values in found.items()]


@needs_prometheus
def test_each_alert_fires_on_what_it_is_for_and_none_where_all_is_well(tmp_path):
    names = [alert["alert"] for alert in alerts()]
    assert sorted([*BY_METRIC, *MORE]) == sorted(names)
    quiet = {"interval": "1m", "input_series": series(), "promql_expr_test": [
        {"expr": 'count(ALERTS{alertstate="firing"})', "eval_time": "100m", "exp_samples": []}]}  # fmt: skip
    loud = [
        {"interval": "1m", "name": name, "input_series": series(name), "promql_expr_test": [
            {"expr": f'count by (alertname) (ALERTS{{alertname="{name}", alertstate="firing"}})', "eval_time": "100m",
             "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]}]}
        for name in names
    ]  # fmt: skip
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": [quiet, *loud]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_promtool_finds_no_fault():
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def metrics() -> dict[str, set[str]]:
    """Name of each metric that a scheduler may show, as in a query without `_bucket`; and its labels."""
    shown = Metrics(Sources(
        watches=lambda: [("Pod", 1.0, 1)], guard=lambda: "on", ages=lambda: {"worker": 1.0},
    ))  # fmt: skip
    key = ("q", "x")
    shown.count(Figures({key: 1}, {key: 1}, {key: 1.0}, {"q": 1.0}, {"q": 1.0}, {"cpu": 1.0}, {"q": 1.0}))
    shown._requests.labels("bind", "200").inc()
    shown._seconds.labels("bind").observe(1.0)
    shown.heard("list", 200, 1.0)
    shown._waits.labels("q").observe(1.0)
    shown._ended.labels("q", "failed").inc()
    found: dict[str, set[str]] = {}
    for family in families(shown.text().decode()):
        for one in family.samples:
            name = re.sub(r"_(bucket|sum|count|created)$", "", one.name) if family.type == "histogram" else one.name
            if not name.endswith("_created"):
                found.setdefault(name, set()).update(one.labels.keys() - {"le"})
    return found


def test_every_metric_is_in_the_table_and_nothing_else_is():
    rows = re.findall(r"^\| `(headway_\w+)` \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert told == metrics()


def test_every_query_asks_for_metrics_that_there_are():
    there = metrics()
    queries = [alert["expr"] for alert in alerts()] + [query for found in panels().values() for query in found]
    for query in queries:
        names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series_of(query)}
        assert names, query
        assert names <= there.keys(), f"{names - there.keys()}: {query}"


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_each_alert_has_a_section_of_the_page(alert):
    name, page = alert["alert"], PAGE.read_text()
    assert alert["annotations"]["runbook_url"].endswith(f"/alarms#{name.lower()}")
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    section = page.partition(f"\n### {name}\n")[2].partition("\n#")[0]
    assert section, f"docs/alarms.md has no section {name}"
    for words in ("**It means**", "**Look at**", "**Do**"):
        assert words in section, f"{name}: {words}"


def test_the_page_has_no_alert_that_is_gone():
    assert set(re.findall(r"^### (Headway\w+)$", PAGE.read_text(), re.MULTILINE)) == {one["alert"] for one in alerts()}
