"""The parts of a machine that its drivers need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from stepward.vm.journal.signing import SigningKey, VerifyKey
from stepward.vm.journal.store import Journal
from stepward.vm.machine.breakers import Breakers
from stepward.vm.machine.caching import Replies
from stepward.vm.machine.clock import Clock
from stepward.vm.machine.models import Model
from stepward.vm.machine.tools import Tools

Io = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a machine that a driver needs. `io` calls a method of the journal, directly or in a thread.

    `replies` are those of a cache, if the machine has one. `depart` is called with a driver before its run
    ends, if that moves to another version: it creates the run that goes on. Once `stop` is set, no call starts, and no
    run waits for the time of one. `parks` says that a run with nothing but a long delay ahead is let go until then.
    `trusted` are keys that signed runs before `key` did. `breakers` may hold runs.
    """

    journal: Journal
    tools: Tools
    model: Model | None
    clock: Clock
    key: SigningKey | None
    retry_delay: Callable[[int], float]
    lease_seconds: float
    random: Callable[[int], bytes]
    io: Io
    breakers: Breakers
    replies: Replies | None = None
    depart: Callable[[Any], Awaitable[None]] | None = None
    stop: asyncio.Event | None = None
    parks: bool = False
    trusted: tuple[VerifyKey, ...] = ()

    @property
    def keys(self) -> tuple[VerifyKey, ...]:
        """The keys of which one has to have signed a run, so that the machine goes on with it; none without a key."""
        return () if self.key is None else (self.key.public, *self.trusted)
