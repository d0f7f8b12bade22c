"""The states of a run as machines measured them that compared the limit of the state with new values alone.

They counted the characters of whole records, so that a state could have some more bytes than its limit; they did not
count what sub-steps had left where one of them failed. Nor did they count the steps of attempts to come, beside which
others start. A replay asks what such a machine would have decided.
"""

from __future__ import annotations

from stepward.vm.machine.apply import apply
from stepward.vm.machine.history import History
from stepward.vm.machine.state import State, before


class SizedOnce:
    """The states of a run, asked for in the order of its events."""

    def __init__(self, found: History) -> None:
        self._plan, self._events = found.plan, found.events
        self._state = before(found.plan)._replace(is_once_sized=True)
        self._applied = 0

    def before(self, number: int) -> State:
        """Return the state before an event; `number` is at least that of the last question."""
        while self._applied < number:
            self._state = apply(self._plan, self._state, self._events[self._applied])
            self._applied += 1
        return self._state
