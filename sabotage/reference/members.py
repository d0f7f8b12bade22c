"""Performing sub-steps with `depends_on`, each as soon as those that it depends on have an output."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from stepward.sabotage.reference.answers import Moved
from stepward.sabotage.reference.calls import Call, judge
from stepward.sabotage.reference.data import left_with
from stepward.sabotage.reference.echoes import sought
from stepward.sabotage.reference.rules import Earlier
from stepward.sabotage.reference.run import Over
from stepward.sabotage.reference.waves import Pause, Waves


class Members(Waves):
    """A run that can perform steps with `depends_on`."""

    _is_ordered = False

    def _perform(self, step: Any, parts: list[Any]) -> Generator[None, None, str]:
        self._is_ordered = any(getattr(part, "depends_on", ()) for part in parts)
        try:
            outcome = yield from super()._perform(step, parts)
        finally:
            self._is_ordered = False
        return outcome

    # -- the order -----------------------------------------------------------------------------------------------------

    def _needs(self, call: Call) -> list[Call]:
        return [other for other in self._calls if other.step.id in getattr(call.step, "depends_on", ())]

    def _earlier(self, call: Call) -> list[Call]:
        """Return the calls on which a call depends, directly or indirectly, in program order."""
        names: set[str] = set()
        pending = [call]
        while pending:
            for other in self._needs(pending.pop()):
                if other.step.id not in names:
                    names.add(other.step.id)
                    pending.append(other)
        return [other for other in self._calls if other.step.id in names]

    def _behind(self, call: Call) -> list[Any]:
        if not self._is_ordered:
            return []
        return [other.step for other in self._calls if other.performance and call in self._earlier(other)]

    def _past_of(self, call: Call) -> Earlier:
        """Return what guardrails see before a sub-step, of its siblings."""
        calls = self._earlier(call)
        good = [other.step for other in calls if other.phase == "success"]
        return Earlier(good, [where for other in calls for where, _ in left_with(other.step, None)])

    @contextmanager
    def _as_seen_by(self, call: Call) -> Iterator[None]:
        """Let the data be what a sub-step sees: the state before the step, and the outputs of those before it."""
        data, calls = self._data, [other for other in self._earlier(call) if other.phase in ("success", "fallback")]
        changes = [change for other in calls for change in left_with(other.step, other.value)]
        hidden = [(where, self._hidden_paths(other)) for other in calls for where in _outputs(other.step)]
        self._data = data.with_changes(changes, hidden)
        try:
            yield
        finally:
            self._data = data

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _settle_calls(self, step: Any) -> Pause:
        if not self._is_ordered:
            yield from super()._settle_calls(step)
            return
        while True:
            over = self._start_members(step)
            if any(call.phase == "asked" for call in self._calls):
                yield
                self._take_answers()
                continue
            if isinstance(over, _Forbidden):
                self.log.append(over.moved)
            if over is not None:
                raise over
            phases = [call.phase for call in self._calls if call.phase in ("waits", "doubt")]
            if not phases:
                return
            self._heed_cancellation()
            self.status = "IN_DOUBT" if "doubt" in phases else "SUSPENDED"
            yield

    def _take_answers(self) -> None:
        for call in self._calls:
            if call.phase == "asked" and call.answer is not None:
                known = {
                    text
                    for other in self._earlier(call)
                    if other.phase == "success"
                    for text in sought(other.value, other.returns)
                }
                judge(call, self._most_bytes)
                self._find_echoes(call, self._secrets | known)

    def _start_members(self, step: Any) -> Over | None:
        """Start every sub-step that may start. Return the end of the run, if it comes once no call is under way."""
        while self._fail_one(step):
            pass
        ready = [call for call in self._calls if call.phase == "ready" and self._is_due(call)]
        if step.max_concurrency is not None:
            under_way = sum(call.phase == "asked" for call in self._calls)
            ready = ready[: max(step.max_concurrency - under_way, 0)]
        if not ready:
            return None
        for call in ready:
            with self._as_seen_by(call):
                why = self._prepared(call)
            if why:
                self._begin(step)
                call.fails(*why)
                return self._start_members(step)
        try:
            self._admit(step, ready)
        except Over as over:
            return over
        self._begin(step)
        for call in ready:
            self._start(call)
        return None

    def _is_due(self, call: Call) -> bool:
        return all(other.phase in ("success", "fallback") for other in self._needs(call))

    def _fail_one(self, step: Any) -> bool:
        """Fail the first sub-step of which a dependency came to nothing; return whether there was one."""
        for call in self._calls:
            lacking = [other.step.id for other in self._needs(call) if other.phase in ("failed", "skipped")]
            if call.phase == "ready" and lacking:
                self._begin(step)
                call.fails(f"it depends on {lacking[0]}", "Dependency", lacking[0])
                return True
        return False

    def _admit(self, step: Any, ready: list[Call]) -> None:
        """Raise Over where a budget, a guardrail or a cancellation forbids the next calls."""
        # Also those count that are to be tried again and have no room yet ("Order, Choices").
        self._afford(sum(call.attempt > 0 for call in self._calls if call.phase == "ready"))
        before = self._remembered()
        if not self._is_begun:
            self._note_start(step)
        for call in ready:
            if call.is_same_performance:
                continue
            args = None if call.is_model else call.args
            with self._as_seen_by(call):
                past, read = self._past_of(call), self._data.read
                is_forbidden = any(one.forbids_behind(call.step, args, read, past) for one in self._rules)
            if is_forbidden:
                visit = self._visits.get(step.id, 0) + (not self._is_begun)
                self._restore(before)
                raise _Forbidden(Moved(call.step.id, visit, "blocked", None, self._frames))
            self._note_start(call.step)
        self._restore(before)
        if any(call.is_model for call in ready):
            self._afford_model()
        self._heed_cancellation()

    def _start(self, call: Call) -> None:
        if not call.is_same_performance:
            call.performance += 1
            with self._as_seen_by(call):
                self._starts(call.step, None if call.is_model else call.args, self._past_of(call))
        self.steps += call.attempt > 0
        call.attempt, call.is_repeat, call.phase = call.attempt + 1, False, "asked"


class _Forbidden(Over):
    """A guardrail ends the run; `moved` says where."""

    def __init__(self, moved: Moved) -> None:
        super().__init__("FAILED", "guardrail")
        self.moved = moved


def _outputs(part: Any) -> list[tuple[str, ...]]:
    return [(part.id, "output"), *([(part.output_key,)] if part.output_key is not None else [])]
