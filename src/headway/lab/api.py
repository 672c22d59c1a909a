"""A small client of the API server, to start, check and test a lab. It is too slow for the hot path."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from headway.lab.errors import LabError

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
KEPT_SECONDS = 10.0
"""A connection idle for longer is replaced: the server may have closed it, and a write must not be sent twice."""
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class LabApiError(LabError):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Sends requests; keeps one connection per thread."""

    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        self._host = urlsplit(url).netloc
        self._context = context
        self._local = threading.local()
        self._connections: set[http.client.HTTPSConnection] = set()

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH) -> Any:
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, body: Any = None) -> Any:
        return self.request("DELETE", path, body)

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Any:
        """Returns the decoded JSON, or else the text. Raises `LabApiError` for an error, `OSError` for no answer."""
        data = None if body is None else json.dumps(body).encode()
        was_kept = "connection" in self._local.__dict__
        try:
            response, content = self._send(method, path, data, content_type)
        except (http.client.HTTPException, OSError):
            self._drop()
            if not was_kept or method != "GET":
                raise
            return self.request(method, path, body, content_type)  # the server had closed the kept connection
        text = content.decode()
        is_json = JSON in (response.getheader("Content-Type") or "")
        answer = json.loads(text) if is_json else text
        if response.status >= 400:
            message = answer.get("message", text) if isinstance(answer, dict) else text
            raise LabApiError(response.status, message)
        return answer

    def close(self) -> None:
        """Close the connections of all threads."""
        self._local = threading.local()
        while self._connections:
            self._connections.pop().close()

    def _drop(self) -> None:
        """Close this thread's connection."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            self._connections.discard(connection)
            connection.close()

    def _send(
        self, method: str, path: str, data: bytes | None, content_type: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if time.monotonic() - self._local.__dict__.get("used", 0.0) > KEPT_SECONDS:
            self._drop()
        connection = self._local.__dict__.get("connection")
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=30)
            self._local.connection = connection
            self._connections.add(connection)
        connection.request(method, path, data, {"Content-Type": content_type, "Accept": JSON})
        response = connection.getresponse()
        content = response.read()
        self._local.used = time.monotonic()
        return response, content
