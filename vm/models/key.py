"""Where the key of a server is: read for each call, and kept in no object, so that none of our texts can show it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stepward.vm.models.refusals import ModelRefused

KeySource = str | Callable[[], str]
"""`env:NAME` for a variable of the environment, `file:PATH` for a file, or a function that returns the key."""

MAX_KEY: Final = 8_192
"""Characters of a key, such as a long token of a sign-on service."""

_KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_KEY}}}")
"""What a header can hold: a library would show a key with other characters in its error."""


def read_key(source: object) -> str | None:
    """Return the key of a KeySource, without white space around it; None without a source.

    Raises ModelRefused, which names the source and never its content.
    """
    if source is None:
        return None
    if callable(source):
        return _checked(source(), "the function of `key`")
    kind, _, where = source.partition(":") if isinstance(source, str) else ("", "", "")
    if kind == "env" and where:
        found = os.environ.get(where)
        if found is None:
            raise ModelRefused(f"there is no variable `{where}` in the environment, and the key of the model is there")
        return _checked(found, f"the variable `{where}`")
    if kind == "file" and where:
        return _checked(_content(where), f"the file `{where}`")
    # It may be the key itself, so it is not shown.
    raise ModelRefused("the key of a model must be `env:NAME` or `file:PATH`, and not the key itself")


def _content(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(2 * MAX_KEY).decode("ascii", "replace")
    except OSError as error:
        why = (error.strerror or "it is no file").lower()
        raise ModelRefused(f"the key of the model in `{file}` can't be read: {why}") from None


def _checked(text: object, where: str) -> str:
    key = text.strip() if isinstance(text, str) else ""
    if not _KEY.fullmatch(key):
        rule = f"one word of at most {MAX_KEY:,} printable ASCII characters"
        raise ModelRefused(f"{where} holds no key of a model: a key is {rule}")
    return key
