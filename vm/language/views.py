"""What is known of the values of a reference, and of values that come from several sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stepward.vm.expressions.operators import ANY
from stepward.vm.values import to_json


class View(NamedTuple):
    """What is known of the values of a reference.

    `optional`: the field may be absent by what is declared or tested; `unstated`: it may be, since nothing is declared
    and no condition reads it; `never`: nothing ever defines it; `is_known` is false if every value is possible, because
    there is neither a declaration nor a use that needs anything.
    """

    kinds: frozenset[str] = ANY
    enum: tuple[object, ...] | None = None
    optional: bool = False
    never: bool = False
    is_known: bool = True
    unstated: bool = False

    @property
    def may_lack(self) -> bool:
        """Whether the field may be absent."""
        return self.optional or self.unstated


NO_VALUE: Final = View(frozenset(), ())
"""The view of a name that is never assigned."""


def union(views: Sequence[View]) -> View:
    """Return the view of values that come from any of several sources."""
    if len(views) == 1:
        return views[0]
    enums = [view.enum for view in views]
    present = [view for view in views if not view.never] or views
    members = None if None in enums else {to_json(member): member for enum in enums for member in enum or ()}
    return View(
        kinds=frozenset().union(*(view.kinds for view in present)),
        enum=None if members is None else tuple(members.values()),
        optional=any(view.optional or view.never for view in views),
        never=all(view.never for view in views),
        is_known=all(view.is_known for view in views),
        unstated=any(view.unstated for view in views),
    )


@lru_cache(maxsize=128)
def static_kinds(kinds: frozenset[str]) -> frozenset[str]:
    """Return kinds of values with `integer` replaced by `number`: the typing does not distinguish the two."""
    return frozenset("number" if word == "integer" else word for word in kinds)
