"""What the settings of a campaign may be: a word that is no name would leave its attacks out without a word."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def require_names(field: str, what: str, names: Any, known: Iterable[str]) -> None:
    """Raise TypeError for what is no tuple of names, ValueError for a name that is not known."""
    listed = tuple(known)
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f'`{field}` is a tuple of names, such as `("{listed[0]}",)`, and not {names!r}')
    for name in names:
        if name not in listed:
            near = get_close_matches(name, listed, 1)
            help = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(listed)}"
            raise ValueError(f"there is no {what} `{name}`; {help}")


def require_count(field: str, count: Any) -> None:
    """Raise TypeError for what is no whole number, ValueError for one below 1."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"`{field}` is a whole number, and not {count!r}")
    if count < 1:
        raise ValueError(f"`{field}` is at least 1, and not {count}")
