"""Network namespaces whose link to this one can be cut; a helper only, no tests stand here. They need root and `ip`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import pytest


class Namespace(NamedTuple):
    """A network namespace: its name, this end of its link, and the address of this side as seen from inside."""

    name: str
    link: str
    address: str

    @property
    def prefix(self) -> list[str]:
        """The words before a command that is to run inside."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Let nothing through any more, and nobody hear of it."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Let everything through again."""
        _ip("link", "set", self.link, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def namespaces(count: int, port: int) -> Iterator[list[Namespace]]:
    """Make namespaces, from each of which `port` of its `address` leads to that port of the loopback interface here.

    Skips the test where no namespace can be made.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and the command `ip`")
    with ExitStack() as stack:
        made = []
        for number in range(count):
            mark = uuid.uuid4().hex[:6]
            one = Namespace(f"stepward-{mark}", f"sw{mark}a", f"10.213.{number + 1}.1")
            try:
                _ip("netns", "add", one.name)
                stack.callback(_ip, "netns", "del", one.name)
                _ip("link", "add", one.link, "type", "veth", "peer", "name", f"sw{mark}b", "netns", one.name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespace can be made: {error.stderr.decode().strip()}")
            _ip("addr", "add", f"{one.address}/30", "dev", one.link)
            _ip("link", "set", one.link, "up")
            inside = ("netns", "exec", one.name, "ip")
            _ip(*inside, "addr", "add", f"10.213.{number + 1}.2/30", "dev", f"sw{mark}b")
            _ip(*inside, "link", "set", f"sw{mark}b", "up")
            listener = stack.enter_context(socket.create_server((one.address, port)))
            threading.Thread(target=_serve, args=(listener, port), daemon=True).start()
            made.append(one)
        yield made


def _serve(listener: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", port))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=_carry, args=ends, daemon=True).start()


def _carry(source: socket.socket, target: Any) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
