"""A server on the loopback interface that answers requests for chat completions as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

JSON = "application/json"


class Answer(NamedTuple):
    """One answer: its status, its body, and its headers; `cut` announces one byte more than there is."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)
    cut: bool = False


class Asked(NamedTuple):
    """One request as the server got it."""

    path: str
    headers: dict[str, str]
    body: Any


def said(content: Any, *, usage: Any = (10, 7), finish: Any = "stop", model: Any = "small-2026", **more: Any) -> Answer:
    """Return an answer with one choice; `usage` has the tokens of prompt and reply, or is the field itself."""
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return data({"id": "x", "model": model, "choices": [choice], "usage": usage})


def data(value: Any, status: int = 200, **headers: str) -> Answer:
    """Return an answer in JSON."""
    more = tuple((name.replace("_", "-"), one) for name, one in headers.items())
    return Answer(json.dumps(value).encode(), status, (("Content-Type", JSON), *more))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # with the few of the library, calls side by side wait a second


class ChatServer:
    """Answers with each of `answers` in turn, and then with the last one forever; `asked` lists the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [said("yes")]
        self.asked: list[Asked] = []
        self.before: Callable[[], object] = lambda: None
        self.lock = threading.Lock()
        self.http = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def next(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            return self.answers[min(len(self.asked), len(self.answers)) - 1]


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = server.next(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            server.before()
            self.send_response(answer.status)
            for name, value in (*answer.headers, ("Content-Length", str(len(answer.body) + answer.cut))):
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the client has read enough
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Start a server; it ends with the block."""
    server = ChatServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()
