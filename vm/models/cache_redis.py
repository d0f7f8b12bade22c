"""A cache of replies on a server that speaks the Redis protocol, for many machines: the extra `redis`."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.arguments import COUNT, TEXT, require
from stepward.vm.models.cache import CacheFault

PREFIX: Final = "stepward:reply:"
SECONDS_KEPT: Final = 30 * 86_400
PATIENCE_SECONDS: Final = 0.5


class RedisCache:
    """Replies on the server at a URL such as `redis://host:6379/0`. Each is kept for `seconds`, 30 days unless given.

    How much memory they take at most is for the server to say (`maxmemory`, and `maxmemory-policy allkeys-lru`).
    A server that does not answer within half a second is passed over.
    """

    def __init__(self, url: str, *, seconds: int = SECONDS_KEPT) -> None:
        """Raises CacheFault for a URL that can't be one, and if the client `redis` is not installed."""
        require(TEXT, url=url)
        require(COUNT, seconds=seconds)
        try:
            import redis
        except ImportError:
            raise CacheFault(
                "a cache on a server needs the client `redis`: `pip install 'stepward[redis]'` installs it"
            ) from None
        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._seconds = seconds
        options = {"socket_timeout": PATIENCE_SECONDS, "socket_connect_timeout": PATIENCE_SECONDS}
        try:
            self._server: Any = redis.Redis.from_url(url, **options, decode_responses=False)
        except ValueError:
            raise CacheFault("the URL of the cache is none; write `redis://host:port/0`") from None

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key, or None if there is none; raises CacheFault."""
        try:
            found = self._server.get(PREFIX + key)
        except self._errors as error:
            raise _fault(error) from None
        return found if type(found) is bytes else None

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry; raises CacheFault."""
        try:
            self._server.set(PREFIX + key, entry, ex=self._seconds)
        except self._errors as error:
            raise _fault(error) from None

    def close(self) -> None:
        """Close the connections."""
        self._server.close()


def _fault(error: Exception) -> CacheFault:
    """Return a fault without the text of the client's error, which may quote the URL with its password."""
    return CacheFault(f"the server of the cache does not answer: {type(error).__name__}")
