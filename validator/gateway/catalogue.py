"""The tools that a caller may call, each with its arguments and what it does.

The docstring of a tool is its description: a model reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stepward.validator.gateway.arguments import (
    Arguments,
    NoArguments,
    PlanArguments,
    ProgramArguments,
    RuleArguments,
    RunArguments,
    SaveArguments,
    StartArguments,
    TurnArguments,
    parsed,
)
from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.gateway import Gateway, Progress
from stepward.validator.gateway.pages import LESSON, page, rule_page


@dataclass(frozen=True)
class Asker:
    """Who asks: the caller, at a gateway; `progress` is told how a run goes on."""

    gateway: Gateway
    caller: Caller
    progress: Progress | None = None


async def check_program(asker: Asker, args: ProgramArguments) -> str:
    """Check a program. Returns `accepted`, or what is wrong: the code, the place and what to change. Runs nothing."""
    return await asker.gateway.check_program(asker.caller, args.program)


async def explain(_: Asker, args: RuleArguments) -> str:
    """Explain a rule that a check has reported, with an example. Without a code: the language, on one page."""
    return page(LESSON) if args.code is None else rule_page(args.code)


async def draw_program(asker: Asker, args: ProgramArguments) -> str:
    """Return a program that passes the check as a diagram in Mermaid."""
    return await asker.gateway.draw_program(asker.caller, args.program)


async def list_tools(asker: Asker, _: NoArguments) -> Mapping[str, Any]:
    """List the tools that your programs may call, with their arguments, outputs and effects."""
    return await asker.gateway.list_tools(asker.caller)


async def plan(asker: Asker, args: PlanArguments) -> Mapping[str, Any]:
    """Let the operator's model write a program for a task, with the tools that your programs may call.

    Returns a run whose output has the `program` that the check accepts, or the `reason` why there is none. Nothing else
    is run: read the program, and send it to `run_program`. With `continues`, an interrupted run of yours, the program
    does what that run has left, and you send it with the same `continues`.
    """
    return await asker.gateway.plan(
        asker.caller, args.task, args.inputs, args.request, asker.progress, continues=args.continues
    )


async def run_program(asker: Asker, args: StartArguments) -> Mapping[str, Any]:
    """Run a program that passes the check: give `program`, its text, or `name`, that of a saved one.

    Returns the run when it has ended, or after some seconds; then poll it with `get_run`. A run that is `pending` waits
    for a person whom the operator names: you can't approve it.
    """
    return await asker.gateway.run_program(
        asker.caller, args.program, args.name, args.inputs, args.request, asker.progress, continues=args.continues
    )


async def run_lisp(asker: Asker, args: TurnArguments) -> Mapping[str, Any]:
    """Take one turn of a session in PTC-Lisp, a small Clojure: `(def orders (tool/fetch_orders {:customer data/c}))`.

    A turn is proved first: if it could break a rule, it is refused, and nothing of it is run. Without `session`, a new
    one starts; send the `session` of the answer with the next turn. `def` stays if the turn succeeds. `(return x)` ends
    the session with its result. If the answer is `running`, call again with the `session` alone. The resource
    `stepward://lisp` teaches the language on one card.
    """
    return await asker.gateway.run_lisp(asker.caller, args.program, args.session, args.signature, args.data)


async def get_run(asker: Asker, args: RunArguments) -> Mapping[str, Any]:
    """Say how one of your runs stands, and what it has returned."""
    return await asker.gateway.get_run(asker.caller, args.run)


async def list_runs(asker: Asker, _: NoArguments) -> Mapping[str, Any]:
    """List your runs, the newest first."""
    return await asker.gateway.list_runs(asker.caller)


async def verify_run(asker: Asker, args: RunArguments) -> Mapping[str, Any]:
    """Say whether the records of a run are as they were written."""
    return await asker.gateway.verify_run(asker.caller, args.run)


async def replay_run(asker: Asker, args: RunArguments) -> Mapping[str, Any]:
    """Show the path of a run, and whether the machine would decide the same again. Calls no tool."""
    return await asker.gateway.replay_run(asker.caller, args.run)


async def cancel_run(asker: Asker, args: RunArguments) -> Mapping[str, Any]:
    """End one of your runs. What it has done stays done."""
    return await asker.gateway.cancel_run(asker.caller, args.run)


async def save_program(asker: Asker, args: SaveArguments) -> Mapping[str, Any]:
    """Save a program that passes the check under a name: lower-case letters, digits, `-` and `_`."""
    return await asker.gateway.save_program(asker.caller, args.name, args.program)


async def list_programs(asker: Asker, _: NoArguments) -> Mapping[str, Any]:
    """List the names of your saved programs."""
    return await asker.gateway.list_programs(asker.caller)


@dataclass(frozen=True)
class Entry:
    """A tool of the catalogue: its function, the type of its arguments, and whether it changes nothing."""

    function: Callable[[Asker, Any], Awaitable[str | Mapping[str, Any]]]
    arguments: type[Arguments]
    is_read_only: bool = True

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """What the tool does, for a model."""
        return inspect.cleandoc(self.function.__doc__ or "")

    async def answer(self, asker: Asker, arguments: Mapping[str, Any] | None) -> str | Mapping[str, Any]:
        """Return the answer, a text or plain data; raises Refused."""
        return await self.function(asker, parsed(self.arguments, arguments))


_ENTRIES: Final = (
    Entry(check_program, ProgramArguments),
    Entry(explain, RuleArguments),
    Entry(draw_program, ProgramArguments),
    Entry(list_tools, NoArguments),
    Entry(plan, PlanArguments, is_read_only=False),
    Entry(run_program, StartArguments, is_read_only=False),
    Entry(run_lisp, TurnArguments, is_read_only=False),
    Entry(get_run, RunArguments),
    Entry(list_runs, NoArguments),
    Entry(verify_run, RunArguments),
    Entry(replay_run, RunArguments),
    Entry(cancel_run, RunArguments, is_read_only=False),
    Entry(save_program, SaveArguments, is_read_only=False),
    Entry(list_programs, NoArguments),
)
CATALOGUE: Final = {entry.name: entry for entry in _ENTRIES}
"""The tools by name, in the order in which they are listed."""
