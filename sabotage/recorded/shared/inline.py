"""Requests to a machine that call its store and checker without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from stepward.vm.machine.runs import INLINE

T = TypeVar("T")


async def inline(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a request. Raises its errors."""
    INLINE.set(True)
    return await work


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a request, which waits for no time. All share one loop. Raises its errors."""
    return _runner().run(inline(work))


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()
