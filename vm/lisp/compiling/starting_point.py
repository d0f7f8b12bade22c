"""What a program starts from: nothing, or what the earlier turns of a session have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stepward.vm.lisp.compiling.values import Type
from stepward.vm.reading.source import Span


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What a turn starts from.

    `values` are the types of the values that are there, by their names: `orders` of a `def`, `*1`, `data/customer`.
    `functions` are the texts of the functions that are there. `returns` is the type of what `(return x)` may give,
    `max_steps` the budget that is left.

    A turn that is tried again does not repeat its calls. `recalled` are the types of the results that are known, by the
    number of the call in the program. `remembered` are those of lists of calls that were made at a site, each with its
    `args` and its `result`: whether a call is one of them is seen when the run gets to it. `unrolled` says for how many
    items the steps of a loop are written out, and how many items it has, by the number of the loop.
    """

    values: Mapping[str, Type] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    returns: Type | None = None
    max_steps: int | None = None
    recalled: Mapping[int, Type] = field(default_factory=dict)
    remembered: Mapping[int, Type] = field(default_factory=dict)
    unrolled: Mapping[int, tuple[int, int]] = field(default_factory=dict)


ALONE: Final[StartingPoint | None] = None
"""The starting point of a program that is no turn."""


Chain = tuple[Span, ...]
"""The places of a call: those of the calls of functions around it, from the outside in, and its own."""


@dataclass(slots=True)
class Sites:
    """The calls of tools and the loops of a compiled program.

    `calls` and `loops` are their numbers by step id. `sites` are those of the calls by step id: the text of the form,
    and its rank among the calls with this text; for all items of a loop the site is the same. `checked` is the step
    that checks what is returned.
    """

    calls: dict[str, int] = field(default_factory=dict)
    sites: dict[str, tuple[str, int]] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    checked: str = ""
    around: list[Span] = field(default_factory=list)
    _ranks: dict[str, dict[Chain, int]] = field(default_factory=dict)

    def add_call(self, step: str, text: str, span: Span) -> int:
        """Note a call, and return its number."""
        number = self.calls[step] = len(self.calls)
        words = " ".join(text.split())
        ranks = self._ranks.setdefault(words, {})
        self.sites[step] = words, ranks.setdefault((*self.around, span), len(ranks))
        return number
