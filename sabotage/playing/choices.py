"""The decisions of an attack: drawn by Hypothesis during the search, read from a script in a replay.

Every decision has a name and is a value of the language. So a case is a mapping that can be saved, read by a person and
replayed by another process. A decision is made once; an attack may ask for it any number of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from stepward.vm.errors import StepwardError
from stepward.vm.language.node import plain
from stepward.vm.values import freeze

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, SearchStrategy


class ScriptMisfit(StepwardError):  # noqa: N818 - it is what happened, not a fault
    """A script lacks a decision that its attack needs: it was written for another program or version."""


class Choices(Protocol):
    """A source of decisions. `decisions` has the decisions so far, by name."""

    decisions: dict[str, Any]

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name: a value of `among`."""
        ...

    def each(self, name: str, count: int, part: range | None = None) -> Iterator[int]:
        """Yield every number below `count`, or those of a part. Each sees the decisions from before the loop, and none
        from other rounds."""
        ...


class Drawn:
    """Decisions drawn by Hypothesis, which then shrinks them."""

    def __init__(self, data: DataObject | None = None) -> None:
        self.decisions: dict[str, Any] = {}
        self._data = data

    def draw_from(self, data: DataObject) -> None:
        """Use another source from here on: each rule of a state machine draws from its own."""
        self._data = data

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name, drawn on first use.

        The value is normalised as in a script (`0`, not `0.00`), so that a case and its replay agree.
        """
        if name not in self.decisions:
            assert self._data is not None, "a decision is drawn from something"
            self.decisions[name] = plain(freeze(self._data.draw(among)))
        return self.decisions[name]

    def each(self, name: str, count: int, part: range | None = None) -> Iterator[int]:
        """Yield every number below `count`, or those of a part."""
        before = dict(self.decisions)
        for number in range(count) if part is None else part:
            self.decisions = {**before, name: number}
            yield number
        self.decisions = before


class Recorded:
    """Decisions read from a script."""

    def __init__(self, decisions: Mapping[str, Any]) -> None:
        self.decisions = dict(decisions)

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:  # noqa: ARG002 - the script has chosen
        """Return the decision of that name. Raises ScriptMisfit if the script has none."""
        if name not in self.decisions:
            raise ScriptMisfit(f"the script does not say `{name}`")
        return self.decisions[name]

    def each(self, name: str, count: int, part: range | None = None) -> Iterator[int]:  # noqa: ARG002 - of any part
        """Yield the one number in the script. Raises ScriptMisfit if it is out of range."""
        number = self.decisions.get(name)
        if type(number) is not int or not 0 <= number < count:
            raise ScriptMisfit(f"the script says `{number}` for `{name}`, and there are {count}")
        yield number
