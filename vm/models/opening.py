"""Opens a cache of replies by the name of its place."""

from __future__ import annotations

import os
from typing import Final

from stepward.vm.models.cache import ReplyCache

URLS: Final = ("redis://", "rediss://", "unix://")


def open_cache(place: str | os.PathLike[str]) -> ReplyCache:
    """Return the cache at a place: a file, or a server by its URL (`redis://host:port/0`).

    Raises CacheFault for a place that can't be one, or if the client of the server is not installed. A file is opened
    when it is first used.
    """
    name = os.fspath(place)
    if name.startswith(URLS):
        from stepward.vm.models.cache_redis import RedisCache

        return RedisCache(name)
    from stepward.vm.models.cache_sqlite import SQLiteCache

    return SQLiteCache(name)
