"""What an attack decides as it goes: drawn by Hypothesis while it is searched for, read from a script afterwards.

Every decision has a name and is a value of the language, so that a case is a mapping that can be saved, read by a
person and run again by another process. What was decided stays decided: an attack may ask for it any number of times.
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
    """A script does not have a decision that its attack asks for: it was written for another program or version."""


class Choices(Protocol):
    """Where decisions come from. `made` is what was decided so far, by name."""

    made: dict[str, Any]

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name: a value that `among` has."""
        ...

    def each(self, name: str, count: int) -> Iterator[int]:
        """Yield every number below `count`, each with what was decided before, and with nothing decided since."""
        ...


class Drawn:
    """Decisions drawn by Hypothesis, which then shrinks them."""

    def __init__(self, data: DataObject | None = None) -> None:
        self.made: dict[str, Any] = {}
        self._data = data

    def draw_from(self, data: DataObject) -> None:
        """Draw from here on what comes: each rule of a state machine draws from its own."""
        self._data = data

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name, drawn when it is asked for the first time.

        It is the value that a script can hold (`0`, not `0.00`), so that a case and its replay decide alike.
        """
        if name not in self.made:
            assert self._data is not None, "a decision is drawn from something"
            self.made[name] = plain(freeze(self._data.draw(among)))
        return self.made[name]

    def each(self, name: str, count: int) -> Iterator[int]:
        """Yield every number below `count`."""
        before = dict(self.made)
        for number in range(count):
            self.made = {**before, name: number}
            yield number
        self.made = before


class Recorded:
    """Decisions read from a script."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        self.made = dict(made)

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:  # noqa: ARG002 - the script has chosen
        """Return the decision of that name; raises ScriptMisfit when the script has none."""
        if name not in self.made:
            raise ScriptMisfit(f"the script does not say `{name}`")
        return self.made[name]

    def each(self, name: str, count: int) -> Iterator[int]:
        """Yield the one number that the script has; raises ScriptMisfit when it can't be one."""
        number = self.made.get(name)
        if type(number) is not int or not 0 <= number < count:
            raise ScriptMisfit(f"the script says `{number}` for `{name}`, and there are {count}")
        yield number
