"""Shards on a Dask cluster: each is played in a process of its own beside the worker that got it.

A worker of Dask is a daemon with several threads. A shard may start processes, and its machines have the process for
themselves, so the worker only starts that process and waits for it.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.campaigns.shard import Shard, ShardResult
from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS: Final = 30
"""How long the scheduler, and the first worker, are waited for."""

RETRIES: Final = 2
"""How often a shard is played again whose process has died, before it is given up."""

AHEAD: Final = 2
"""The number of shards for each thread of the cluster that are with its scheduler at a time."""

BESIDE: Final = "stepward.sabotage.campaigns.beside"
"""The module that plays a shard in a process of its own."""

SHOWN: Final = 300
"""Characters of the errors of a process that are shown."""


class ClusterRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A cluster can't be used, and `help` says what to do."""

    def __init__(self, what: str, help: str) -> None:
        super().__init__(what)
        self.help = help


class ShardLost(StepwardError):  # noqa: N818 - a normal outcome, not a fault
    """The process of a shard has died."""


def on_cluster(
    address: str, data: Mapping[str, Any], orders: Any, shards: Sequence[Shard], until: float | None, version: str
) -> Iterator[ShardResult]:
    """Play shards on the cluster of a scheduler, and yield the result of each as it comes, each one once.

    `data` is the target, and `until` when no shard starts any more. What a worker had when it died is played again by
    another one; a shard whose processes or workers died too often is lost. `version` identifies the code here:
    raises ClusterRefused for a worker with another, and for a cluster that can't be reached or has no worker.
    """
    with _connected(address) as client:
        _require_version(client, version)
        yield from _results(client, data, orders, list(reversed(shards)), until)


def _connected(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        help = "install Stepward with its extra: `python -m pip install 'stepward[dask]'`"
        raise ClusterRefused(f"a Dask cluster needs a library that is missing ({error})", help) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        help = "name the address that `dask scheduler` prints, such as `tcp://127.0.0.1:8786`"
        raise ClusterRefused(f"there is no Dask scheduler at `{address}`: {why[:SHOWN]}", help) from None
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        client.close()
        raise ClusterRefused(
            f"the cluster at `{address}` has no worker", f"`dask worker {address}` starts one"
        ) from None
    return client


def _require_version(client: Client, version: str) -> None:
    help = "install the same version of Stepward on all machines of the cluster"
    try:
        found = client.run(version_there)
    except Exception as error:
        raise ClusterRefused(f"a worker of the cluster can't run Stepward: {error}", help) from None
    for worker, theirs in found.items():
        if theirs != version:
            raise ClusterRefused(f"the worker `{worker}` has another version of Stepward than this machine", help)


def version_there() -> str:
    """Return what identifies the code of Stepward; a worker of the cluster is asked."""
    from hashlib import sha256

    root = Path(__file__).parents[2]
    digest = sha256()
    for room in ("sabotage", "vm"):
        for file in sorted((root / room).rglob("*.py")):
            digest.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _results(
    client: Client, data: Mapping[str, Any], orders: Any, waiting: list[Shard], until: float | None
) -> Iterator[ShardResult]:
    from distributed import as_completed

    running: dict[Any, Shard] = {}
    coming = as_completed(loop=client.loop)
    while waiting or running:
        # Workers come and go, so the size of the cluster is asked each time.
        room = max(1, sum(client.nthreads().values())) * AHEAD
        while waiting and len(running) < room:
            if until is not None and time.monotonic() >= until:
                waiting.clear()
                break
            shard = waiting.pop()
            future = client.submit(play_beside, pickle.dumps((data, shard, orders)), pure=False, retries=RETRIES)
            running[future.key] = shard
            coming.add(future)
        if not running:
            return
        future = next(coming)
        shard = running.pop(future.key)
        yield _result(future) or ShardResult(shard, {}, 0, 0.0, None, is_lost=True)


def _result(future: Future) -> ShardResult | None:
    """Return the result of a shard, or None if it is given up; raises the error that the campaign raises here."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    try:
        kind, content = pickle.loads(future.result())
    except (ShardLost, KilledWorker, FutureCancelledError):
        return None
    if kind == "error":
        raise content
    assert isinstance(content, ShardResult)
    return content


# -- beside a worker ---------------------------------------------------------------------------------------------------


def play_beside(work: bytes) -> bytes:
    """Play a shard in a new process, and return what it wrote; raises ShardLost if it died. A worker calls this."""
    with tempfile.TemporaryDirectory(prefix="stepward-") as folder:
        file = Path(folder) / "result"
        command = [sys.executable, "-m", BESIDE, str(file)]
        process = subprocess.run(command, input=work, capture_output=True, check=False)
        if process.returncode or not file.exists():
            errors = process.stderr.decode(errors="replace")[-SHOWN:].strip()
            raise ShardLost(f"the process of a shard ended with {process.returncode}: {errors}")
        return file.read_bytes()
