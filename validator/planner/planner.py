"""The planner: a model proposes a program for a task, and the gate decides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from stepward.validator.gateway.judging import Judged, judge
from stepward.validator.planner.before import Before, Continuing, before_of
from stepward.validator.planner.brief import Brief, brief_of
from stepward.validator.planner.loop import (
    JUDGE,
    MAX_TRIES,
    PROPOSE,
    TRIES,
    planning_inputs,
    planning_program,
    planning_tools,
)
from stepward.validator.planner.refusal import PlanRefused
from stepward.validator.planner.verdicts import completed
from stepward.vm.arguments import COUNT, MAPPING, NUMBER, TEXT, made, require, require_each
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.policy import Policy
from stepward.vm.machine.equipment import require_model, require_parts
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.trace import Attempt

if TYPE_CHECKING:
    from stepward.vm.journal.signing import SigningKey, VerifyKey
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.program import Program
    from stepward.vm.machine.models import Model
    from stepward.vm.machine.observer import Observer
    from stepward.vm.machine.run import Run


@dataclass(frozen=True)
class Proposal:
    """One try: the reply of the model, and the answer of the gate, in the form for models."""

    reply: str
    answer: str
    is_accepted: bool


@dataclass(frozen=True)
class Planned:
    """What has come of a task.

    `run` is the id of the planning run in the journal. `program` is the accepted program and `text` its text; they are
    None and empty if there is none, and `reason` says why. `policies` are those under which it was accepted: run it
    under them. `tokens` and `cost` are those of all tries. `before` are the runs that the program is to continue: hand
    its `run`, `head` and `reads_of(program)` to `ExecutionVM.continue_run`.
    """

    run: str
    program: Program | None
    text: str
    reason: str
    proposals: tuple[Proposal, ...]
    policies: tuple[Policy, ...]
    tokens: int
    cost: int | Decimal
    before: Before | None = None


class Planner:
    """Makes programs for tasks: a model proposes, the gate decides, and a journal has every attempt.

    `manifest` has the facts on the tools that a program may call, by name, as plain data; without it, the tools are
    those that `policies` declare. `about` says in words what tools do. `journal` is a store (memory unless given), and
    `key` signs its heads. `tries`, `max_tokens` and `max_cost` bound one plan. No value of an input and no sensitive
    value is in what the model is told.

    Raises ValueError for a number of tries that is not 1 to 20.
    """

    def __init__(  # noqa: PLR0913 - each is a part that users may replace
        self,
        model: Model,
        manifest: Mapping[str, Any] | None = None,
        policies: Policy | Sequence[Policy] = (),
        journal: Journal | None = None,
        *,
        about: Mapping[str, str] | None = None,
        key: SigningKey | None = None,
        trusted: Sequence[VerifyKey] = (),
        tries: int = TRIES,
        max_tokens: int | None = None,
        max_cost: Decimal | None = None,
        observer: Observer | None = None,
    ) -> None:
        require_model(model)
        require_parts(journal=journal, key=key, trusted=trusted, observer=observer)
        require_each(made(Policy), policies=() if isinstance(policies, Policy) else policies)
        require(MAPPING.or_none(), manifest=manifest, about=about)
        require(COUNT, tries=tries)
        require(COUNT.or_none(), max_tokens=max_tokens)
        require(NUMBER.or_none(), max_cost=max_cost)
        if not 1 <= tries <= MAX_TRIES:
            raise ValueError(f"`tries` is a number from 1 to {MAX_TRIES}")
        self._model = model
        self._manifest = manifest
        self._policies = tuple(policies) if isinstance(policies, Sequence) else (policies,)
        self._journal: Journal = MemoryJournal() if journal is None else journal
        self._about = about or {}
        self._key = key
        self._trusted = tuple(trusted)
        self._observer = observer
        self._program = planning_program(tries, max_tokens, max_cost)

    def brief(
        self,
        task: str,
        *,
        name: str = "plan",
        inputs: Mapping[str, Any] | None = None,
        continues: Continuing | None = None,
    ) -> Brief:
        """Return what a plan for a task is made from; raises PlanRefused if it is none."""
        require(TEXT, task=task, name=name)
        require(MAPPING.or_none(), inputs=inputs)
        require(made(Continuing).or_none(), continues=continues)
        if continues is not None and inputs is not None:
            raise PlanRefused("a continuation has the inputs that it reads", "leave the types of inputs out")
        return brief_of(
            task,
            name=name,
            manifest=self._manifest,
            policies=self._policies,
            about=self._about,
            inputs=inputs,
            before=None if continues is None else partial(before_of, self._journal, continues),
        )

    async def plan(
        self,
        task: str,
        *,
        name: str = "plan",
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        by: str | None = None,
        continues: Continuing | None = None,
    ) -> Planned:
        """Return what comes of a task.

        `name` is that of the program. `inputs` are the types of the inputs that it may read, by name, as plain data;
        None leaves them to the model. With the `run_id` of an earlier plan, that one is returned, or continued if it
        was interrupted. `by` names the person who plans, for the journal. With `continues`, the program is to do what
        an interrupted run in the journal has left; its inputs are what it may read of that run.

        Raises PlanRefused for a task, a name, an input or a manifest that can't be used, and the errors of the machine:
        RunRefused, RunBusy, JournalError.
        """
        brief = await asyncio.to_thread(partial(self.brief, task, name=name, inputs=inputs, continues=continues))
        machine = ExecutionVM(
            planning_tools(brief, partial(judged, brief)),
            self._model,
            self._journal,
            checker=None,  # the program is ours, and a test checks it
            key=self._key,
            trusted=self._trusted,
            observer=self._observer,
        )
        run = await machine.run(self._program, planning_inputs(brief), run_id=run_id, by=by)
        if not run.is_over:
            (run,) = await machine.recover(run.id)
        return await planned(run, brief)

    def plan_sync(self, task: str, **options: Any) -> Planned:
        """Return what `plan` returns, for code without an event loop."""
        with contextlib.suppress(RuntimeError):  # there is none: an error of the plan must not stand behind that
            asyncio.get_running_loop()
            raise StepwardError("an event loop runs here: await `plan`")
        return asyncio.run(self.plan(task, **options))


async def judged(brief: Brief, text: str) -> Judged:
    """Return the judgement of the gate on a text under the policies of a brief; raises Refused."""
    return await asyncio.to_thread(judge, text, brief.policies)


async def planned(run: Run, brief: Brief) -> Planned:
    """Return what a planning run has come to.

    The gate judges the program once more: a run that existed may have been made under other policies.
    """
    output = run.output or {}
    text, reason = output.get("program", ""), output.get("reason") or run.error or _why_ended(run)
    program = None
    if text:
        again = await judged(brief, text)
        program, reason = again.program, "" if again.program else again.answer
        if program is not None and completed(program, brief) != text:
            program, reason = None, "this planner would not write the recorded program so: make another plan"
    proposals = await asyncio.to_thread(_proposals, run)
    text = "" if program is None else text
    return Planned(run.id, program, text, reason, proposals, brief.policies, run.tokens, run.cost, brief.before)


def _why_ended(run: Run) -> str:
    return f"the budget `{run.reason}` is used up" if run.status == "BUDGET_EXCEEDED" else run.reason or run.status


def _proposals(run: Run) -> tuple[Proposal, ...]:
    replies: list[str] = []
    proposals: list[Proposal] = []
    for record in run.trace:
        if isinstance(record, Attempt) and record.outcome == "success":
            if record.step == PROPOSE:
                replies.append(record.output)
            elif record.step == JUDGE:
                proposals.append(Proposal(replies[-1], record.output["answer"], record.output["accepted"]))
    return tuple(proposals)
