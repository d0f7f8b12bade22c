"""Performing calls: one alone, or the siblings of a parallel step, in waves of attempts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.answers import Cut, Moved
from stepward.sabotage.reference.calls import Call, judge
from stepward.sabotage.reference.data import Changes, left_with, left_without
from stepward.sabotage.reference.echoes import echoes, sought
from stepward.sabotage.reference.expressions import Undefined
from stepward.sabotage.reference.plain import MOST_NAMED, NoValue, Unworded, to_value, written
from stepward.sabotage.reference.rules import is_allowed, is_done
from stepward.sabotage.reference.run import Over, Run
from stepward.sabotage.reference.templates import filled, names_in
from stepward.sabotage.reference.types import completed

Pause = Generator[None, None, None]
"""A generator that yields wherever the run needs an answer from outside."""


class Waves(Run):
    """A run that can perform llm, tool and parallel steps."""

    def _perform(self, step: Any, parts: list[Any]) -> Generator[None, None, str]:
        """Perform the calls of a step, apply their results, and return how it ended ("Parallel" 1 to 3)."""
        self._calls = [self._call(part) for part in parts]
        is_parallel = step.type == "parallel"
        rounds = step.max_retries if is_parallel and step.on_error == "retry" else 1
        for number in range(1, rounds + 1):
            yield from self._settle_calls(step)
            failed = [call for call in self._calls if call.phase == "failed"]
            if not failed or number == rounds:
                break
            # Siblings that succeeded are not run again ("Parallel" 2).
            self._afford(1 + len(failed))
            self.steps += 1
            for call in failed:
                call.phase, call.before = "ready", call.attempt
        return self._join(step) if is_parallel else self._bind(step)

    def _call(self, part: Any) -> Call:
        returns = self._types.output(part.id)
        return Call(part, returns=returns) if part.type == "llm" else Call(part, self._tool(part.tool), returns)

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _settle_calls(self, step: Any) -> Pause:
        """Make attempts until every call has ended. Calls that wait or are in doubt come after all others."""
        while True:
            wave = self._next_wave(step)
            unfit = [(call, why) for call in wave if (why := self._prepared(call)) is not None]
            for call, (error, name) in unfit:
                self._begin(step)
                call.fails(error, name)
            if unfit:
                continue
            if wave:
                yield from self._wave(step, wave)
                continue
            phases = [call.phase for call in self._calls if call.phase in ("waits", "doubt")]
            if not phases:
                return
            self._heed_cancellation()
            self.status = "IN_DOUBT" if "doubt" in phases else "SUSPENDED"
            yield

    def _next_wave(self, step: Any) -> list[Call]:
        """Return the calls of the next wave. If tokens or costs are limited, and in a branch, it has at most
        `max_concurrency` sub-steps ("Parallel, Choices"; "Branches, Choices")."""
        ready = [call for call in self._calls if call.phase == "ready"]
        is_bounded = self.program.max_tokens is not None or self.program.max_cost is not None
        is_bounded = is_bounded or facts.are_beside(self._frames, self.program)
        return ready[: step.max_concurrency] if is_bounded and step.type == "parallel" else ready

    def _prepared(self, call: Call) -> tuple[str, str] | None:
        """Compute the arguments of a call. Return why it can't start, and the name of the error, if so: then it fails
        without retries ("Failure" 6)."""
        step, read = call.step, self._data.read
        try:
            if call.is_model:
                call.prompt = _text(filled(step.prompt, read))
                call.system = None if step.system is None else _text(filled(step.system, read))
                call.is_blocked = any(self._data.hidden_below(names) for names in names_in([step.prompt, step.system]))
                return ("sensitive", "Refused") if call.is_blocked else None
            args_read = to_value(filled(step.args, read))
        except Undefined as error:
            return f"undefined {error}", "Undefined"
        except NoValue as error:
            return f"ill-typed {error}", "BadValue"
        args = args_read if call.tool.args is None else completed(args_read, call.tool.args)
        if args is None:
            return f"ill-typed {args_read}", "BadArguments"
        call.args = args
        # A call that no policy allows is rejected; the step fails without retries ("Policies, Choices").
        language = self.program.language
        call.is_blocked = is_done(call.tool, step.tool, args, self._terms) or not all(
            is_allowed(step.tool, args, terms, read, language) for terms in self._terms
        )
        return ("not allowed", "Refused") if call.is_blocked else None

    def _wave(self, step: Any, wave: list[Call]) -> Pause:
        """Start an attempt of each call of a wave, and continue when all have returned ("Parallel, Choices")."""
        self._afford(sum(call.cost for call in wave))
        new = [call for call in wave if call.cut is None and not call.is_same_performance]
        self._ask_rules(step, [(call.step, None if call.is_model else call.args) for call in new])
        if any(call.is_model for call in wave):
            self._afford_model()
        self._heed_cancellation()
        self._begin(step)
        for call in new:
            call.performance += 1
            self._starts(call.step, None if call.is_model else call.args)
        for call in wave:
            self.steps += call.cost
            call.attempt, call.is_repeat, call.cut, call.phase = call.attempt + 1, False, None, "asked"
        yield
        for call in wave:
            if isinstance(call.answer, Cut):
                self._take_back(call, call.answer)
            else:
                judge(call, self._most_bytes)
                self._find_echoes(call, self._secrets)

    def _take_back(self, call: Call, cut: Cut) -> None:
        """Let an attempt be made again, as a crash has ended its wave ("Parallel, Choices")."""
        call.attempt, call.cut, call.answer, call.phase = call.attempt - 1, cut, None, "ready"
        self.steps -= call.cost

    def _afford_model(self) -> None:
        """End the run before a call of a model if its tokens or its money are used up ("Control flow" 10)."""
        most_tokens, most_cost = self.program.max_tokens, self.program.max_cost
        if most_tokens is not None and self.tokens >= most_tokens:
            raise Over("BUDGET_EXCEEDED", "max_tokens")
        if most_cost is not None and self.cost >= most_cost:
            raise Over("BUDGET_EXCEEDED", "cost")

    def _find_echoes(self, call: Call, secrets: set[str]) -> None:
        """Find echoes in an output, but not in a reply of a closed set or a `fallback`, which come from the program."""
        if call.phase == "success" and getattr(call.step, "allowed_outputs", None) is None:
            call.hidden = echoes(call.value, call.returns, secrets)

    def _brought(self) -> set[str]:
        """Return the sensitive values that the calls of the current step returned."""
        good = [call for call in self._calls if call.phase == "success"]
        return {text for call in good for text in sought(call.value, call.returns)}

    # -- results of calls ----------------------------------------------------------------------------------------------

    def _bind(self, step: Any) -> str:
        """Apply the result of the single call of an llm or tool step."""
        (call,) = self._calls
        self._error_name = call.name
        self._change(_left_by(call))
        self._hide(call)
        self._secrets |= self._brought()
        if call.phase == "success":  # a step that ended by fallback or skip did not succeed ("Guardrails" 1)
            self._succeeded(step)
        return call.phase

    def _join(self, step: Any) -> str:
        """Apply the results of the sub-steps in program order, then the result of the whole ("Parallel" 1 to 3)."""
        failed = [call.step.id for call in self._calls if call.phase == "failed"]
        outcome = "joined" if not failed else "skipped" if step.on_error == "skip" else "failed"
        changes = [change for call in self._calls for change in _left_by(call)]
        good = [call for call in self._calls if call.phase in ("success", "fallback")]
        output = {facts.written_name(call.step.id): call.value for call in good}
        self._left = self._sized(output)
        if self._left > self._room:
            raise Over("FAILED", "error")  # as after a `for_each` ("Parallel, Choices")
        if failed:
            errors = [call.error for call in self._calls if call.phase == "failed"]
            names = [call.name for call in self._calls if call.phase == "failed"]
            # One that only lacks an output does not explain the failure ("Errors by name" 2).
            self._error_name = next((name for name in names if name != "Dependency"), names[0])
            says, hides = _told_of(self._calls)
            why = Unworded.telling(f"{failed} failed: {errors}", says, hides)
            changes += left_without(step, why, self._error_name)
        else:
            changes += left_with(step, output)
        self._change(changes)
        for call in self._calls:
            self._hide(call)
        self._hide_joined(step, good)
        self._secrets |= self._brought()
        for call in self._calls:
            how = "blocked" if call.is_blocked else call.phase
            self.log.append(Moved(call.step.id, self._visits[step.id], how, None, self._frames))
            if call.phase == "success":
                self._succeeded(call.step, self._behind(call))
        if outcome == "joined":
            self._succeeded(step)
        return outcome

    def _behind(self, call: Call) -> list[Any]:  # noqa: ARG002
        """Return the siblings that depend on a call and have started."""
        return []

    def _hide(self, call: Call) -> None:
        paths = self._hidden_paths(call)
        self._data.hide((call.step.id, "output"), paths)
        if call.step.output_key is not None:
            self._data.hide((call.step.output_key,), paths)

    def _hidden_paths(self, call: Call) -> set[tuple[str, ...]]:
        """Return the sensitive fields of an output; a `fallback` comes from the program and has none."""
        if call.phase != "success":
            return set()
        return self._types.hidden_output(call.step.id, call.value) | call.hidden

    def _hide_joined(self, step: Any, good: list[Call]) -> None:
        paths = {(facts.written_name(call.step.id), *path) for call in good for path in self._hidden_paths(call)}
        self._data.hide((step.id, "output"), paths)
        if step.output_key is not None:
            self._data.hide((step.output_key,), paths)


def _told_of(calls: Sequence[Call]) -> tuple[list[str], list[str]]:
    """Return what the error of a parallel step says, and what it does not: it names the first sub-steps that failed
    themselves, and those that did not start only where there is no other ("Order, Choices")."""
    failed = [call for call in calls if call.phase == "failed"]
    own = [call for call in failed if call.name != "Dependency"] or failed
    says = [text for call in own[:MOST_NAMED] for text in (f"`{call.step.id}`", *call.says)]
    return says, [f"`{call.step.id}`: " for call in failed if call not in own]


def _text(value: Any) -> str:
    """Return a prompt as text, also if it is a single reference."""
    return written(value)


def _left_by(call: Call) -> Changes:
    if call.phase in ("success", "fallback"):
        return left_with(call.step, call.value)
    return left_without(call.step, Unworded.telling(f"{call.step.id} {call.error}", call.says), call.name)
