"""The state machine of Hypothesis that makes the moves of `actors.py`; importing it imports Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from stepward.sabotage.playing.actors import RUNS, Actors
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.choices import Drawn

MAX_POINT: Final = 25
"""The last point at which a process dies. A short run has about as many."""

_RUN: Final = st.sampled_from(RUNS)
_DIES: Final = st.one_of(st.none(), st.integers(0, MAX_POINT))


class Everybody(RuleBasedStateMachine):
    """One case: the moves as rules, each recorded as a decision before it is made.

    `begin` returns the case, `end` is called at its end, `broke` with the error that ended it.
    """

    begin: ClassVar[Callable[[], Case]]
    end: ClassVar[Callable[[Case, Actors], None]]
    broke: ClassVar[Callable[[Case, Exception], None]]

    def __init__(self) -> None:
        super().__init__()
        self.case = type(self).begin()
        self.actors = Actors(self.case)
        self._moves = 0
        self._is_broken = False

    def _move(self, data: Any, do: str, run: str, dies: int | None = None) -> None:
        choices = self.case.choices
        assert isinstance(choices, Drawn), "a state machine searches"
        choices.draw_from(data)
        self._moves += 1
        choices.decisions[f"move {self._moves}"] = move = {"do": do, "run": run, "dies": dies}
        try:
            self.actors.do(move)
        except Exception as error:
            self._is_broken = True
            type(self).broke(self.case, error)
            raise

    @initialize(data=st.data(), dies=_DIES)
    def start_first(self, data: Any, dies: int | None) -> None:
        """Start a run, since all other moves need one."""
        self._move(data, "start", RUNS[0], dies)

    @rule(data=st.data(), run=_RUN, dies=_DIES)
    def start(self, data: Any, run: str, dies: int | None) -> None:
        """Start a run, or request it again."""
        self._move(data, "start", run, dies)

    @rule(data=st.data(), run=_RUN, dies=_DIES)
    def recover(self, data: Any, run: str, dies: int | None) -> None:
        """Recover a run."""
        self._move(data, "recover", run, dies)

    @rule(data=st.data(), run=_RUN, dies=_DIES)
    def answer(self, data: Any, run: str, dies: int | None) -> None:
        """Deliver what a run waits for."""
        self._move(data, "answer", run, dies)

    @rule(data=st.data(), run=_RUN)
    def use_a_token_again(self, data: Any, run: str) -> None:
        """Deliver a token again."""
        self._move(data, "use a token again", run)

    @rule(data=st.data(), run=_RUN, dies=_DIES)
    def cancel(self, data: Any, run: str, dies: int | None) -> None:
        """Cancel a run."""
        self._move(data, "cancel", run, dies)

    @rule(data=st.data(), run=_RUN, dies=_DIES)
    def erase(self, data: Any, run: str, dies: int | None) -> None:
        """Erase a run."""
        self._move(data, "erase", run, dies)

    @rule(data=st.data(), run=_RUN)
    def wait(self, data: Any, run: str) -> None:
        """Wait until a lease expires."""
        self._move(data, "wait", run)

    @rule(data=st.data(), run=_RUN)
    def start_with_other_inputs(self, data: Any, run: str) -> None:
        """Request another run under a used id."""
        self._move(data, "start with other inputs", run)

    @rule(data=st.data(), run=_RUN)
    def finish(self, data: Any, run: str) -> None:
        """Drive a run to its end and judge it."""
        self._move(data, "finish", run)

    def teardown(self) -> None:
        """Report the end of the case."""
        if not self._is_broken:
            type(self).end(self.case, self.actors)
