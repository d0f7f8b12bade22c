"""The smallest program with which something is still wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from multiprocessing import get_context
from multiprocessing.connection import Connection
from os import sysconf
from pathlib import Path
from resource import RLIMIT_AS, setrlimit
from time import monotonic
from typing import Any, Final

Fails = Callable[[dict[str, Any]], bool]

MEMORY: Final = 1_000_000_000
"""The bytes that shrinking may take beside those that its process has."""

SECONDS: Final = 600


def shrink(
    data: dict[str, Any], still_fails: Fails, *, memory: int = MEMORY, seconds: float = SECONDS
) -> dict[str, Any]:
    """Return a smaller program that fails too: whatever can be left out one by one is.

    A process of its own tries them, with a bound of memory and of time: what is left of a program may be without end,
    and takes whatever there is. At a bound, the smallest program so far is returned.
    """
    context = get_context("fork")  # the check is a function of a test, which no other process knows
    told, telling = context.Pipe(duplex=False)
    child = context.Process(target=_tries, args=(telling, data, still_fails, memory), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside threads may wait for ever: then the time is over
        child.start()
    telling.close()
    end = monotonic() + seconds
    try:
        while told.poll(max(0.0, end - monotonic())):
            data = told.recv()
    except EOFError:
        pass  # it has tried all, or has died at its bound
    finally:
        child.kill()
        child.join()
    return data


def _tries(telling: Connection, data: dict[str, Any], still_fails: Fails, memory: int) -> None:
    """Send each smaller program that fails too."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * sysconf("SC_PAGE_SIZE") + memory
    setrlimit(RLIMIT_AS, (bound, bound))
    while True:
        smaller = next((one for one in _smaller(data) if _fails(one, still_fails)), None)
        if smaller is None:
            return
        data = smaller
        telling.send(data)


def _fails(data: dict[str, Any], still_fails: Fails) -> bool:
    try:
        return still_fails(data)
    except Exception:  # what makes no program is no smaller program, nor is what takes too much memory
        return False


def _smaller(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the program with one thing less, large things first."""
    for number in range(len(data["guardrails"]) - 1, -1, -1):
        yield _without(data, ("guardrails", number))
    for number in range(len(data["steps"]) - 1, -1, -1):
        yield from _without_step(data, number)
    for path in _optional(data, ()):
        yield _without(data, path)
    for number, step in enumerate(data["steps"]):
        for text in re.findall(r"\(([^()]*)\)", step.get("condition", "")):
            yield _changed(data, number, "condition", text)
        for text in re.split(r" and | or ", step.get("condition", "")):
            if text != step.get("condition"):
                yield _changed(data, number, "condition", text)


def _changed(data: dict[str, Any], number: int, name: str, value: Any) -> dict[str, Any]:
    less = deepcopy(data)
    less["steps"][number][name] = value
    return less


def _without(data: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    less = deepcopy(data)
    inner: Any = less
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    if path[-1] == "on_timeout":
        inner.pop("timeout_seconds", None), inner.pop("fallback", None)
    return less


KEPT = ("id", "type", "name", "steps", "guardrails", "tools", "when", "then", "condition", "prompt", "tool", "set")


def _optional(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of what may be left out."""
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield (*path, number)
            yield from _optional(inner, (*path, number))
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in KEPT or path[-1:] == ("set",):
                yield (*path, name)
            if path or name in ("steps", "guardrails", "inputs"):
                yield from _optional(inner, (*path, name))


def _without_step(data: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the program without a step: those who went to it go to one of its neighbours."""
    steps = data["steps"]
    for other in (number + 1, number - 1):
        if not 0 <= other < len(steps):
            continue
        less = deepcopy(data)
        del less["steps"][number]
        for step in less["steps"]:
            for part in (step, *step.get("cases", ())):
                for name in ("then", "otherwise", "error_step", "next_step"):
                    if part.get(name) == steps[number]["id"]:
                        part[name] = steps[other]["id"]
        yield less
