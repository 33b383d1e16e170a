"""A GitHub on loopback that answers from a table, for the steps of workflows."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "a-token"


@dataclass
class FakeGithub:
    """Answers and what was asked."""

    address: str = ""
    answers: dict[str, Any] = field(default_factory=dict)  # path without query → answer, or its HTTP status
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)  # method, path, query, body

    def answer(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.asked.append((method, parts.path, query, body))
        found = self.answers.get(f"{method} {parts.path}", self.answers.get(parts.path, 404))
        found = found(query) if callable(found) else found
        return (found, {}) if isinstance(found, int) else (200, found)


def step_variables(address: str) -> dict[str, str]:
    """What GitHub tells a step of run 100 of the nightly workflow."""
    return {
        "GITHUB_API_URL": address,
        "GITHUB_REPOSITORY": "octo/kernels",
        "GITHUB_RUN_ID": "100",
        "GITHUB_WORKFLOW_REF": "octo/kernels/.github/workflows/nightly.yml@refs/heads/main",
    }


@contextlib.contextmanager
def fake_github(header: str = "Authorization", prefix: str = "Bearer ") -> Iterator[FakeGithub]:
    """One that serves until the block ends; ``header`` has the token, as another CI system may have it."""
    fake = FakeGithub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            allowed = self.headers[header] == f"{prefix}{TOKEN}"
            status, answer = fake.answer(self.command, self.path, body) if allowed else (401, {})
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
