"""What a file of functions fills: its shelf, with a row for each function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Space = Literal["core", "string", "set", "walk", "json"]
"""Where Clojure has a function: `clojure.core`, `clojure.string`, `clojure.set`, `clojure.walk`; `json` is our own."""


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """One function: `usage` is how it is called, `doc` what it does, `most` None is any number of arguments."""

    name: str
    usage: str
    least: int
    most: int | None
    run: Callable[..., Any]
    doc: str
    space: Space
    subject: str


class FunctionTable:
    """The functions of one subject."""

    def __init__(self, subject: str, space: Space = "core") -> None:
        self.subject = subject
        self.space: Space = space
        self.rows: list[FunctionEntry] = []

    def function(
        self,
        name: str,
        args: str,
        least: int,
        most: int | None,
        *,
        also: tuple[str, ...] = (),
        space: Space | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a function under its name and others; `args` are its arguments in the words of the page."""

        def add(run: Callable[..., Any]) -> Callable[..., Any]:
            doc = (run.__doc__ or "").strip().split("\n\n")[0]
            for one in (name, *also):
                usage = f"({one} {args})" if args else f"({one})"
                self.rows.append(FunctionEntry(one, usage, least, most, run, doc, space or self.space, self.subject))
            return run

        return add
