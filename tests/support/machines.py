"""A machine on a bench: scripted tools and models, a clock that nobody waits for; helpers only, no tests stand here.

Whatever a bench runs, it reads again from the journal and holds against what the caller got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepward.vm import ExecutionVM, MemoryJournal, Program, Run, ScriptedModel, ToolContext
from stepward.vm.language.automata import Bound, bound
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.plan import Plan

TOOLS: dict[str, Any] = {
    "read": {"effect": "read"},
    "write": {"effect": "write", "idempotent": False},
    "again": {"effect": "write", "idempotent": True},
    "ask": {"effect": "none", "suspends": True},
}


class Late(NamedTuple):
    """A scripted answer that comes after so many seconds."""

    seconds: float
    answer: Any = None


class Asked(NamedTuple):
    """What a tool was called with."""

    tool: str
    step: str
    args: Mapping[str, Any]
    visit: int
    attempt: int
    key: str
    token: str


class Script:
    """Tools that answer by script: each answer of a step (or else of a tool) in turn, the last one again and again.

    An exception is raised, a function is called with the arguments, a Late answer comes late by the clock.
    """

    def __init__(self, clock: ManualClock, answers: Mapping[str, Any]) -> None:
        self.clock = clock
        self.answers = {name: said if isinstance(said, list) else [said] for name, said in answers.items()}
        self.given: dict[str, int] = {}
        self.asked: list[Asked] = []

    def has(self, name: str) -> bool:
        return name != "missing"

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        key, token = context.idempotency_key, context.resume_token
        self.asked.append(Asked(name, context.step, args, context.visit, context.attempt, key, token))
        source = context.step if context.step in self.answers else name
        said = self.answers.get(source, ["done"])
        number = self.given.get(source, 0)
        self.given[source] = number + 1
        answer = said[min(number, len(said) - 1)]
        if isinstance(answer, Late):
            self.clock.time += int(answer.seconds * 1_000_000)
            answer = answer.answer
        if callable(answer) and not isinstance(answer, type):
            answer = answer(**args)
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        return answer

    def steps(self) -> list[str]:
        """Return the steps whose tools were called, in order."""
        return [asked.step for asked in self.asked]

    def keys(self, step: str) -> list[str]:
        """Return the idempotency keys that a step's tool was given."""
        return [asked.key for asked in self.asked if asked.step == step]


def unchecked(*parts: Any, **named: Any) -> ExecutionVM:
    """Return a machine without a checker: what tests run is often what one would refuse."""
    return ExecutionVM(*parts, checker=None, **named)


class Bench:
    """A machine with its script, its model, its journal and its clock."""

    def __init__(
        self,
        tools: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        journal: Any = None,
        **machine: Any,
    ) -> None:
        self.clock = ManualClock()
        self.tools = Script(self.clock, tools or {})
        self.model = ScriptedModel(model or {})
        self.journal = MemoryJournal() if journal is None else journal
        self.vm = unchecked(self.tools, self.model, self.journal, clock=self.clock, **machine)

    def run(self, program: Program, run_id: str = "run", /, **inputs: Any) -> Run:
        """Run a program, and hold what came out against the journal."""
        return self.checked(self.vm.run_sync(program, inputs, run_id=run_id))

    def resume(self, run: Run, payload: Any, number: int = 0) -> Run:
        """Resume the step of a run that waits."""
        return self.checked(self.vm.resume_sync(run.suspensions[number].token, payload))

    def checked(self, run: Run) -> Run:
        """Return a run whose journal says the same."""
        again = self.vm.get_sync(run.id)
        assert again.snapshot() == run.snapshot(), "the fold of the journal is the state of the live run"
        assert again.trace_hash == run.trace_hash
        return run

    def bodies(self, kind: str = "", run_id: str = "run") -> list[Mapping[str, Any]]:
        """Return what the records of a run say, those of one kind or all."""
        found = load(self.journal, run_id, self.stored)
        assert found is not None
        return [record.body for record in found.records if kind in ("", record.kind)]

    def kinds(self, run_id: str = "run") -> list[str]:
        """Return the kinds of a run's records."""
        found = load(self.journal, run_id, self.stored)
        assert found is not None
        return [record.kind for record in found.records]

    def stored(self, *documents: Any) -> Plan:
        return stored_plan(self.journal, *documents)


def program(*steps: dict[str, Any], **more: Any) -> Program:
    """Return a program of steps, with the tools of this module unless others are given."""
    return Program.from_dict({"name": "bench", "inputs": {}, "tools": TOOLS, **more, "steps": list(steps)})


def tool(name: str, kind: str = "read", **more: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"id": name, "type": "tool", "tool": kind, **more}


def assign(name: str, /, _step: Mapping[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """Return a `set` step."""
    return {"id": name, "type": "set", "set": values, **(_step or {})}


def check(name: str, condition: str, then: str | None, otherwise: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a two-way condition."""
    ways = {"then": then, "otherwise": otherwise}
    return {"id": name, "type": "condition", "condition": condition, **ways, **more}


def end(name: str = "end", output: Any = None, **more: Any) -> dict[str, Any]:
    """Return an `end` step."""
    return {"id": name, "type": "end", "output": output, **more}


def ask(name: str, prompt: str = "say", **more: Any) -> dict[str, Any]:
    """Return a step that asks a model."""
    return {"id": name, "type": "llm", "prompt": prompt, **more}


def both(name: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a parallel step."""
    return {"id": name, "type": "parallel", "parallel_steps": list(parts), **more}


def raises(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises."""

    def function(**_: Any) -> Any:
        raise error

    return function


def never_stale(*asked: Any) -> Bound:
    found = bound(*asked)
    return found._replace(stale_by=tuple(frozenset() for _ in found.stale_by))
