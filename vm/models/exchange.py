"""One request over HTTP and its answer in JSON: bounded, without redirects, and with errors that show no secret."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio import sleep
from collections.abc import Mapping
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from stepward.vm.machine.models import ModelFailed
from stepward.vm.models.refusals import ModelRefused

MOST_BYTES: Final = 8 << 20
"""Bytes of an answer that are read: a reply has far fewer."""

MOST_WORDS: Final = 300
"""Characters of a server's own words in an error."""

MOST_ATTEMPTS: Final = 5
"""Requests for one attempt of the machine, if the server asks to come back later."""

BUSY: Final = (429, 503)
"""The statuses of a server that has done nothing; with `Retry-After` it says when to come back."""


class Server(NamedTuple):
    """A server and the limits of a call: `timeout` bounds one request, `patience` the waiting between requests.

    Both are in seconds. `tls` is what httpx2 takes as `verify`.
    """

    url: str
    timeout: float
    patience: float
    tls: Any

    async def ask(self, body: bytes, key: str | None) -> Mapping[str, Any]:
        """Return the JSON object that the server answers with; raises ModelFailed for anything else.

        Asks again where the server is busy and says when to come back, as long as that is soon enough.
        """
        waited = 0.0
        for attempt in range(1, MOST_ATTEMPTS + 1):
            answer = await self._one(body, key)
            pause = _pause(answer)
            if pause is None:
                return _accepted(answer, key)
            if attempt == MOST_ATTEMPTS or waited + pause > self.patience:
                often = f", after {attempt} requests" if attempt > 1 else ""
                when = f"it asks to come back in {pause:,.0f} seconds{often}"
                raise ModelFailed(f"the server is busy ({answer.status}): {when}")
            waited += pause
            await sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _one(self, body: bytes, key: str | None) -> _Answer:
        import httpx2

        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        # A client lives for one call: a program may run in many event loops, and a model answers in seconds.
        try:
            async with (
                asyncio.timeout(self.timeout),
                httpx2.AsyncClient(verify=self.tls, timeout=None, follow_redirects=False) as client,
                client.stream("POST", self.url, content=body, headers=headers) as response,
            ):
                return _Answer(response.status_code, response.headers, await _content(response))
        except TimeoutError:
            raise ModelFailed(f"the server has not answered within {self.timeout:g} seconds") from None
        except httpx2.ConnectError as error:
            raise ModelFailed(f"`{self.url}` can't be reached: {_words(str(error), key)}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            why = _words(str(error), key) or type(error).__name__
            raise ModelFailed(f"the answer of the server broke off: {why}") from None


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


async def _content(response: Any) -> bytes:
    """Return the bytes of an answer as they were sent; raises ModelFailed for too many, and for packed ones."""
    # Bytes are not unpacked: a few of them can become a great many.
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ModelFailed("the server packs its answer, though the request forbids it")
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MOST_BYTES:
            raise ModelFailed(f"the answer of the server has more than the {MOST_BYTES:,} bytes allowed")
        parts.append(part)
    return b"".join(parts)


def _pause(answer: _Answer) -> float | None:
    """Return the seconds after which a busy server wants to be asked again, or None."""
    retry_after = answer.headers.get("retry-after", "").strip()
    if answer.status not in BUSY or not retry_after:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _accepted(answer: _Answer, key: str | None) -> Mapping[str, Any]:
    status, kind = answer.status, answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if 300 <= status < 400:
        target = urlsplit(answer.headers.get("location", "")).hostname
        to = f" to host `{_words(target, key)}`" if target else ""
        raise ModelFailed(f"the server redirects{to} ({status}), and redirects are not followed: correct `base_url`")
    is_json = kind == "application/json" or kind.endswith("+json")
    data = _data(answer.content) if is_json else None
    if status in (401, 403):  # such an answer may quote the key
        raise ModelFailed(f"the server refuses the key ({status})")
    if status != 200:
        raise ModelFailed(f"the server refuses the request ({status}){_error_words(data, key)}")
    if not is_json:
        what = f"`{_words(kind, key)}`" if kind else "something without a type"
        raise ModelFailed(f"the server answers with {what} and not with JSON; `base_url` often ends in `/v1`")
    if not isinstance(data, Mapping):
        raise ModelFailed("the answer of the server is no JSON object")
    if data.get("error"):
        raise ModelFailed(f"the server answers with an error{_error_words(data, key)}")
    return data


def _data(content: bytes) -> Any:
    """Return the JSON of an answer, with exact numbers; None if it is none."""
    try:
        return json.loads(content, parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError):
        return None


def _error_words(data: Any, key: str | None) -> str:
    """Return what an answer says of its error, for the end of a message."""
    error = data.get("error") if isinstance(data, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return f": {_words(message, key)}" if isinstance(message, str) and message.strip() else ""


def _words(text: str, key: str | None) -> str:
    """Return words of a server in one bounded line, without the key."""
    if key:
        text = text.replace(key, "…")
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * MOST_WORDS]).split())
    return text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + "…"


def server_at(base_url: str, timeout: float, patience: float) -> Server:
    """Return the server whose chat completions are below a base address.

    Raises ModelRefused for an address that is none, and without httpx2.
    """
    url = _checked_url(base_url)
    try:
        import httpx2
    except ImportError as error:
        advice = "install Stepward with its extra: `pip install 'stepward[openai]'`"
        raise ModelRefused(f"a model over HTTP needs the library `httpx2` ({error}); {advice}") from error
    try:
        httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ModelRefused(_NO_ADDRESS) from None
    return Server(url, timeout, patience, certificates())


def certificates() -> Any:
    """Return what checks the certificates of servers; raises ModelRefused if those of this machine can't be read."""
    import httpx2

    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ModelRefused(f"the certificates of this machine can't be read: {why}") from None


_NO_ADDRESS: Final = "`base_url` must be the address of a server, such as `https://models.example.com/v1`"


def _checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        is_address = False
    if not is_address or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise ModelRefused(_NO_ADDRESS)
    if parts.username is not None or parts.password is not None:
        raise ModelRefused("`base_url` must have no user and no password; name the key with `key`")
    if parts.query or parts.fragment:
        raise ModelRefused("`base_url` must end with its path: it has a `?` or a `#`")
    return f"{base_url.rstrip('/')}/chat/completions"
