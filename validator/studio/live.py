"""What readers of the page are told as it happens: changes of the list of runs, and new sandboxes, in batches."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from stepward.validator.studio.feed import Feed

PAUSE: Final = 0.5
"""Seconds between two looks at the journal, at least: a reader gets two updates a second, however much happens."""

SHARE: Final = 4.0
"""How many times longer than a look the pause after it is: a large journal is looked at less often."""

HEARTBEAT: Final = 10.0
"""Seconds after which a reader is sent something, so that it notices when the studio is gone."""

MOST_READERS: Final = 20

RETRY: Final = 1_000
"""Milliseconds after which a browser connects again."""


class Source(Protocol):
    """Something that changes: `since` returns what a reader of an earlier version lacks, as JSON data."""

    version: int

    def since(self, version: int) -> dict[str, Any]:
        """Return what a reader lacks who has a version; -1 stands for nothing."""
        ...


class Live:
    """The updates of one studio, from a feed and other sources. The journal is read only while somebody reads these."""

    def __init__(self, feed: Feed, others: Sequence[Source] = ()) -> None:
        self._feed = feed
        self._sources: tuple[Source, ...] = (feed, *others)
        self._epoch = secrets.token_hex(4)  # another studio at this port has other versions
        self._readers = 0
        self._trouble = ""
        self._is_over = False
        self._news = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether there are as many readers as there may be."""
        return self._readers >= MOST_READERS

    async def updates(self, last: str) -> AsyncIterator[str]:
        """Yield server-sent events for a reader whose last one had the id `last`, which may be empty.

        Each has all that has changed since the one before. A slow reader gets fewer and larger ones, and nothing is
        kept for it.
        """
        versions = self._versions(last)
        self._readers += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield f"retry: {RETRY}\n\n"
            while not self._is_over:
                now, trouble = self._now, self._trouble
                data: dict[str, Any] = {"trouble": trouble}
                for source, version in zip(self._sources, versions, strict=True):
                    data |= source.since(version)
                yield f"id: {'-'.join(map(str, (self._epoch, *now)))}\ndata: {json.dumps(data)}\n\n"
                versions = now
                await self._news_after(now, trouble)
        finally:
            self._readers -= 1

    @property
    def _now(self) -> tuple[int, ...]:
        return tuple(source.version for source in self._sources)

    def _versions(self, last: str) -> tuple[int, ...]:
        """Return the versions in the id of an event; those of nothing for an id of another studio, or for none."""
        epoch, *numbers = last.split("-")
        is_own = epoch == self._epoch and len(numbers) == len(self._sources)
        if not is_own or not all(one.isascii() and one.isdigit() and len(one) < 16 for one in numbers):
            return (-1,) * len(self._sources)
        return tuple(map(int, numbers))

    async def _news_after(self, versions: tuple[int, ...], trouble: str) -> None:
        """Wait until something has changed, or for the heartbeat."""
        async with self._news:
            try:
                changed = self._news.wait_for(
                    lambda: self._now != versions or self._trouble != trouble or self._is_over
                )
                await asyncio.wait_for(changed, HEARTBEAT)
            except TimeoutError:
                return

    async def _look(self) -> None:
        """Look at the journal again and again while somebody reads."""
        while self._readers:
            start, before = time.monotonic(), (self._now, self._trouble)
            try:
                await asyncio.to_thread(self._feed.look)
                self._trouble = ""
            except StepwardError as error:
                self._trouble = str(error)
            if (self._now, self._trouble) != before:
                await self.tell()
            await asyncio.sleep(max(PAUSE, SHARE * (time.monotonic() - start)))

    async def end(self) -> None:
        """End all streams: the studio stops."""
        self._is_over = True
        await self.tell()

    async def tell(self) -> None:
        """Wake all readers: something may have changed."""
        async with self._news:
            self._news.notify_all()
