"""The model service of the task with the adapter, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "desk-key-of-the-judge"
READ, WRITTEN = 31, 2


@dataclass
class Service:
    """A running service at `url`: what it was asked (path, key, body), and the statuses and texts it gives in turn."""

    url: str
    replies: list[tuple[int, str]]
    asked: list[tuple[str, str | None, Any]] = field(default_factory=list)


@contextmanager
def serving(replies: list[tuple[int, str]]) -> Iterator[Service]:
    """Run a service; after the last reply it has no more and says 503."""
    service = Service("", list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            service.asked.append((self.path, self.headers.get("X-Desk-Key"), read(body)))
            status, text = service.replies.pop(0) if service.replies else (503, "busy")
            usage = {"read": READ, "written": WRITTEN}
            said = json.dumps({"answer": {"text": text}, "usage": usage, "model": "desk-3"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def read(body: bytes) -> Any:
    """Return the JSON of a body, or None."""
    try:
        return json.loads(body)
    except ValueError:
        return None
