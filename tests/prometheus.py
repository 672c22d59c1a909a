"""A real Prometheus that scrapes each second, and the files of the chart that it is tried with."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

CHART = Path(__file__).parents[1] / "charts/headway"
ALERTS, DASHBOARD = CHART / "alerts/headway-alerts.yaml", CHART / "dashboards/headway.json"
needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="no prometheus on this machine: `make prometheus` installs it",
)
SELECTOR = re.compile(r"\b(headway_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")


def alerts() -> list[dict]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels() -> dict[str, list[str]]:
    """The queries of each panel, with all variables at All."""
    found = json.loads(DASHBOARD.read_text())
    return {
        panel["title"]: [
            target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$queue", ".*")
            for target in panel["targets"]
        ]
        for panel in found["panels"]
        if panel["type"] != "row"
    }


def series_of(query: str) -> set[str]:
    """Names of the metrics that it asks for."""
    return {name for name, _ in SELECTOR.findall(query)}


def labels_of(query: str) -> set[str]:
    """Labels that it expects of its metrics."""
    asked = {one.strip() for group in GROUPED.findall(query) for one in group.split(",")}
    for _, matchers in SELECTOR.findall(query):
        asked |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
    return asked


@dataclass
class Prometheus:
    address: str
    process: subprocess.Popen
    log: Path

    def ask(self, path: str, **query: str) -> list | dict:
        with urlopen(f"{self.address}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def rows(self, query: str) -> list:
        return self.ask("query", query=query)["result"]

    def wait(self, query: str, seconds: float = 60) -> list:
        deadline = time.monotonic() + seconds
        while not (found := self.rows(query)):
            assert time.monotonic() < deadline, f"no rows: {query}\n{self.log.read_text()[-2000:]}"
            time.sleep(0.5)
        return found


def start_prometheus(folder: Path, target: str) -> Prometheus:
    """Scrapes and evaluates each second."""
    config, log, port = folder / "prometheus.yaml", folder / "prometheus.log", free_port()
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "headway", "static_configs": [{"targets": [target]}]}],
    }))  # fmt: skip
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    found, deadline = Prometheus(f"http://127.0.0.1:{port}", process, log), time.monotonic() + 30
    while True:
        try:
            found.rows("up")
        except (URLError, OSError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        else:
            return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
