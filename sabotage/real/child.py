"""The process that calls real tools: it leaves the network, then forks one process for each case.

It runs as a module with two folders as arguments: the folder that tools may write to, and the folder of modules. Cases
arrive as lines of JSON on the standard input; answers go to the standard output. A case is a list of deeds: `find` a
tool, `call` it, call it twice so that the calls `overlap`, and `look` at the world.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import importlib
import importlib.util
import json
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from decimal import Decimal
from functools import wraps
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.real.isolation import IsolationError, die_with_parent, isolate, lock
from stepward.sabotage.real.watching import Watch
from stepward.vm.machine.models import is_async
from stepward.vm.machine.tools import FunctionTools, InDoubt, Suspend, ToolContext
from stepward.vm.values import ByteBudget, freeze, to_json

SCRATCH: Final = "tmp"
"""The folder for temporary files, which are ignored."""

LOCKED_SECONDS: Final = 0.3
"""How long a second delivery may wait for the first, paused one."""

MAX_FILE_BYTES: Final = 1 << 28
MAX_MEMORY_BYTES: Final = 1 << 32
MAX_OUTPUT_BYTES: Final = 1 << 24
MAX_SHOWN: Final = 300

Answer = dict[str, Any]


class ToolsError(Exception):
    """The module of tools or the probe can't be used."""


class DrawnCase:
    """One case: a fresh import of the module of tools, and the deeds on it."""

    def __init__(self, folder: Path, job: Mapping[str, Any], known: frozenset[str]) -> None:
        self.folder = folder
        self.job = job
        self.watch = Watch(folder)
        self._known = known
        self.module = _imported(job["tools"])
        self.watch.owns(getattr(self.module, "__file__", None) or "/")
        self.probe = _probe(job["probe"])
        self.states: list[Any] = []

    async def play(self) -> list[Answer]:
        """Do the deeds of the job and return the answers."""
        deeds = {"find": self._find, "call": self._call, "overlap": self._overlap, "look": self._look}
        return [await deeds[deed["do"]](deed) for deed in self.job["deeds"]]

    async def _find(self, deed: Mapping[str, Any]) -> Answer:
        return {"found": FunctionTools(self.module).has(deed["tool"])}

    # -- looking -------------------------------------------------------------------------------------------------------

    async def _look(self, _: Mapping[str, Any]) -> Answer:
        """Describe the state of the world: by the probe if there is one, else by the files in the folder."""
        files = _files(self.folder)
        if self.probe is None:
            state: Any = files
        else:
            try:
                state = copy.deepcopy(self.probe())
            except Exception as error:
                raise ToolsError(f"the probe raised {_error_words(error)}") from error
        same = next((number for number, before in enumerate(self.states) if _equal(before, state)), None)
        self.states.append(state)
        digest = hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()
        shown = "" if self.probe is None else repr(state)[:MAX_SHOWN]
        number = len(self.states) - 1 if same is None else same
        return {"state": number, "digest": digest, "shown": shown, "files": files}

    # -- calling -------------------------------------------------------------------------------------------------------

    async def _call(self, deed: Mapping[str, Any]) -> Answer:
        one = _Performance(self, deed)
        self.watch.begin(fail_at=deed.get("fail_at", 0))
        await one.ended()
        return self._outcome(one)

    async def _overlap(self, deed: Mapping[str, Any]) -> Answer:
        """Call a tool, abandon it while it is paused at a line, deliver the key again, and let both end."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        watch = self.watch
        watch.paused = lambda: loop.call_soon_threadsafe(stopped.set)
        watch.begin(pause_at=deed["pause_at"])
        first = _Performance(self, deed)
        waiting = asyncio.ensure_future(stopped.wait())
        await asyncio.wait({waiting, first.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        first.task.cancel()  # as the clock of the machine does
        watch.pause_at = 0
        second = _Performance(self, deed)
        await asyncio.wait({second.task}, timeout=LOCKED_SECONDS)
        watch.release()
        await second.ended()
        await first.ended()
        return {"gave_up": watch.has_stopped, "first": self._outcome(first), "second": self._outcome(second)}

    def _outcome(self, one: _Performance) -> Answer:
        watch = self.watch
        watch.end()
        unseen = [f"loads `{name}`, which is C" for name in sorted(set(_extensions()) - self._known)]
        seen = [list(entry) for entry in watch.seen] + [["unseen", what] for what in unseen]
        return {**one.answer, "changed": one.changed, "tried": watch.tried, "lines": watch.lines, "seen": seen}


class _Performance:
    """One call of a tool, as the machine makes it: through FunctionTools, with frozen values unless `plain`."""

    def __init__(self, case: DrawnCase, deed: Mapping[str, Any]) -> None:
        self.answer: Answer = {"outcome": "raised", "error": "it never ended", "value": None}
        args = deed["args"]
        self._given = copy.deepcopy(args) if deed.get("plain") else dict(freeze(args))
        self._before = copy.deepcopy(self._given)
        self._done = threading.Event()
        name = deed["tool"]
        function = getattr(case.module, name)
        tools = FunctionTools({name: self._wrapped(function, case.watch)})
        context = ToolContext("sabotage", "sabotage", name, 1, deed.get("attempt", 1), deed.get("performance", 1), "")
        self.task = asyncio.ensure_future(self._performed(tools, name, context))

    @property
    def changed(self) -> list[str]:
        """The arguments that the tool changed."""
        return [name for name, value in self._before.items() if not _equal(value, self._given[name])]

    async def _performed(self, tools: FunctionTools, name: str, context: ToolContext) -> None:
        await tools.call(name, self._given, context)

    def _wrapped(self, function: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
        """Wrap a function to record its end and to count its lines."""
        if is_async(function):

            @wraps(function)
            async def waits(**args: Any) -> Any:
                return await self._noted_async(_counted(function(**args), watch))

            return waits

        @wraps(function)
        def works(**args: Any) -> Any:
            return self._noted(lambda: function(**args), watch)

        return works

    def _noted(self, function: Callable[[], Any], watch: Watch) -> Any:
        sys.settrace(watch.trace)
        try:
            return self._returned(function())
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            sys.settrace(None)
            self._done.set()

    async def _noted_async(self, counted: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._returned(await counted)
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._done.set()

    def _returned(self, output: Any) -> Any:
        if isinstance(output, Suspend):
            self.answer = {"outcome": "suspended", "error": "", "value": None}
            return output
        try:
            self.answer = {
                "outcome": "returned",
                "error": "",
                "value": to_json(freeze(output, room=ByteBudget(MAX_OUTPUT_BYTES))),
            }
        except Exception as error:
            self.answer = {"outcome": "no value", "error": str(error)[:MAX_SHOWN], "value": None}
        return output

    def _raised(self, error: BaseException) -> None:
        outcome = "in doubt" if isinstance(error, InDoubt) else "raised"
        if isinstance(error, asyncio.CancelledError):
            outcome = "cancelled"
        self.answer = {"outcome": outcome, "error": _error_words(error), "value": None}

    async def ended(self) -> None:
        """Wait until the function has ended, even if its caller has given up."""
        await asyncio.wait({self.task})
        if not self.task.cancelled() and self.task.exception() is not None and not self._done.is_set():
            self._raised(self.task.exception())  # type: ignore[arg-type]
            return
        await asyncio.get_running_loop().run_in_executor(None, self._done.wait)


@types.coroutine
def _counted(coroutine: Coroutine[Any, Any, Any], watch: Watch) -> Generator[Any, Any, Any]:
    """Await a coroutine. Each point where it waits counts as a possible stop; at the stop it is cancelled."""
    try:
        awaited = coroutine.send(None)
        while True:
            try:
                if watch.comes_to_stop():
                    raise asyncio.CancelledError  # where it waits, it is cancelled
                answer = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(answer)
    except StopIteration as stop:
        return stop.value


# -- imports -----------------------------------------------------------------------------------------------------------


def _imported(name: str) -> types.ModuleType:
    """Import a module by name or file, as `stepward run --tools` does. Raises ToolsError."""
    try:
        if not name.endswith(".py") and os.sep not in name:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(f"stepward_tools_{Path(name).stem}", name)
        assert spec is not None
        assert spec.loader is not None, "a .py file has a loader"
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        sys.path.insert(0, os.path.dirname(name))
        spec.loader.exec_module(module)
    except BaseException as error:
        raise ToolsError(f"`{name}` can't be imported here: {_error_words(error)}") from error
    return module


def _probe(name: str | None) -> Callable[[], Any] | None:
    if name is None:
        return None
    module, _, function = name.rpartition(":")
    found = getattr(sys.modules.get(f"stepward_tools_{Path(module).stem}") or _imported(module), function, None)
    if not callable(found):
        raise ToolsError(f"`{module}` has no function `{function}`")
    probe: Callable[[], Any] = found
    return probe


def _extensions() -> list[str]:
    """Return the loaded C modules that do not belong to Python itself."""
    own = os.path.dirname(os.__file__) + os.sep
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        is_theirs = not file.startswith(own) or "site-packages" in file or name in ("_dbm", "_gdbm")
        if file.endswith(tuple(EXTENSION_SUFFIXES)) and is_theirs:
            found.append(name)
    return found


def _files(folder: Path) -> dict[str, str]:
    """Return the digest of each relevant file, link and folder, by its path."""
    found = {}
    for root, folders, files in os.walk(folder):
        if root == str(folder) and SCRATCH in folders:
            folders.remove(SCRATCH)
        for name in (*folders, *files):
            path = os.path.join(root, name)
            if os.path.islink(path):
                mark = f"a link to {os.readlink(path)}"
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    mark = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                mark = "a folder" if os.path.isdir(path) else "special"
            found[os.path.relpath(path, folder)] = mark
    return dict(sorted(found.items()))


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception as error:
        raise ToolsError(f"what the probe returns can't be compared: {_error_words(error)}") from error


def _error_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_SHOWN]


# -- the forking process -----------------------------------------------------------------------------------------------


def serve(folder: Path) -> None:
    """Answer cases until the input ends. After a case, all its processes are gone."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # the output of tools is discarded
        os.dup2(nothing, number)
    known = frozenset(_extensions())
    for line in lines:
        job = json.loads(line, parse_float=Decimal)
        _clear(folder)
        answer = _forked(folder, job, known)
        for waiting in iter(_reaped, 0):
            del waiting
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (folder / SCRATCH).mkdir()


def _forked(folder: Path, job: Mapping[str, Any], known: frozenset[str]) -> Answer:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            answer = json.dumps(_played(folder, job, known)).encode()
            while answer:
                answer = answer[os.write(writing, answer) :]
        finally:
            os._exit(0)
    os.close(writing)
    text = _read_all(reading, time.monotonic() + float(job["seconds"]))
    os.close(reading)
    assert os.getpid() == 1, "it would end processes that are not ours"
    os.kill(-1, signal.SIGKILL)
    if text is None:
        return {"fault": f"it took longer than {job['seconds']:g} seconds", "answers": None}
    try:
        result: Answer = json.loads(text)
    except ValueError:
        return {"fault": "its process ended without an answer", "answers": None}
    return result


def _played(folder: Path, job: Mapping[str, Any], known: frozenset[str]) -> Answer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return {"fault": None, "answers": asyncio.run(DrawnCase(folder, job, known).play())}
    except ToolsError as error:
        return {"fault": str(error), "answers": None, "is_theirs": True}


def _read_all(reading: int, until: float) -> bytes | None:
    """Return everything that is written, or None if that takes too long."""
    parts: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _reaped() -> int:
    """Reap one ended process. Return 0 if there is none left."""
    try:
        return os.waitpid(-1, 0)[0]
    except ChildProcessError:
        return 0


def main() -> None:
    """Leave the network, report whether that worked, and answer cases."""
    folder = Path(sys.argv[1])
    try:
        die_with_parent()
        isolate(folder)
    except IsolationError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        die_with_parent()
        lock()
    except IsolationError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    sys.path.insert(0, sys.argv[2])
    os.chdir(folder)
    print(json.dumps({"refused": None}), flush=True)
    serve(folder)


if __name__ == "__main__":
    main()
