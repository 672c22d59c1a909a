"""`/healthz`, `/readyz` and `/metrics`, over plain HTTP: for the kubelet's probes and for Prometheus.

`/healthz` fails where a thread hangs: then the kubelet starts the pod anew. A scheduler that lists a large cluster, or
stands by, is healthy. `/readyz` holds once everything was listed. It says nothing about who leads: a standby is ready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST

from headway.core.errors import UserError
from headway.kube.telemetry.metrics import Metrics

log = logging.getLogger("headway.kube")
HANGS_SECONDS = 60.0
"""A thread that has not gone on for so long hangs."""
REQUEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    ages: Callable[[], dict[str, float]]
    """Seconds since each thread last went on."""
    listed: Callable[[], bool]

    def trouble(self) -> str:
        ages = self.ages().items()
        return "; ".join(f"the {name} has not gone on for {age:.0f} s" for name, age in ages if age > HANGS_SECONDS)


class TelemetryServer:
    def __init__(self, listen: str, metrics: Metrics, health: Health) -> None:
        host, _, port = listen.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_SECONDS

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self.answer(200, metrics.text(), CONTENT_TYPE_LATEST)
                elif path == "/healthz":
                    trouble = health.trouble()
                    self.answer(503 if trouble else 200, f"{trouble or 'ok'}\n".encode())
                elif path == "/readyz":
                    ready = health.listed()
                    self.answer(200 if ready else 503, b"ok\n" if ready else b"the lists are not done\n")
                else:
                    self.answer(404, b"there are /healthz, /readyz and /metrics\n")

            def answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Probes come every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except (OSError, ValueError, OverflowError) as error:
            raise UserError(f"--metrics-listen {listen}: cannot listen there: {error}") from error
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="headway-telemetry", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
