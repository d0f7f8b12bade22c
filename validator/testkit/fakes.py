"""Fake tools and a fake clock: tools whose outputs a test states, and which keep a record of their calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepward.vm.arguments import MAPPING, NUMBER, TEXT, made, require
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import ToolCall as ToolPart
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.tools import Suspend, ToolContext, ToolError
from stepward.vm.values import ValueRefused, freeze


class FakeError(AssertionError):
    """A fake was told something that can't be: an unknown tool, or an output that is not of the manifest's type."""


class FakeClock(ManualClock):
    """A clock for tests: waiting takes no time, but moves the clock.

    `slept` lists the seconds of every wait before a retry. A call times out if it moves the clock by more than its
    time-out, as outputs made by `takes` do.
    """

    def advance(self, seconds: float) -> None:
        """Move the clock by a number of seconds."""
        require(NUMBER, seconds=seconds)
        self.time += int(seconds * 1_000_000)


@dataclass(frozen=True)
class ToolCall:
    """A call of a fake tool. `output` is what it returned, None if it raised; `error` is what it raised."""

    tool: str
    step: str
    args: Mapping[str, Any]
    visit: int
    attempt: int
    idempotency_key: str
    resume_token: str
    output: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class _Takes:
    seconds: float
    output: Any


@dataclass(frozen=True)
class _ByArgument:
    argument: str
    outputs: Mapping[Any, Any]


def takes(seconds: float, output: Any = None) -> Any:
    """Return an output that comes after a number of seconds by the fake clock, for tests of time-outs."""
    require(NUMBER, seconds=seconds)
    return _Takes(seconds, output)


def by_argument(argument: str, outputs: Mapping[Any, Any]) -> Any:
    """Return an output that depends on the value of an argument: `by_argument("order_id", {"A": 1, "B": [1, 2]})`."""
    require(TEXT, argument=argument)
    require(MAPPING, outputs=outputs)
    return _ByArgument(argument, outputs)


class FakeTools:
    """Tools of a program that return what a test states, and keep a record of their `calls`.

    `outputs` has an output for each tool or step, by name; the step counts more. A list or a tuple gives its outputs in
    turn, and then the last one again and again (write `[[1, 2]]` for an output that is a list). A function is called
    with the arguments. `by_argument` chooses by an argument, `takes` lets time pass. An exception is raised; a
    `ToolError("CardDeclined")` is an error by name, which the manifest has to list. `Suspend(...)` suspends. Anything
    else is the output. A tool whose manifest declares no `returns` needs no output.

    Raises FakeError for a name that the program does not have, and for an output that is not of the declared type.
    Outputs of functions are compared when they are returned: `complaints` lists what did not fit, because the machine
    takes an exception of a tool for a failure. `check` raises the first one.
    """

    def __init__(
        self,
        program: Program,
        outputs: Mapping[str, Any] | None = None,
        *,
        clock: FakeClock | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        require(MAPPING.or_none(), outputs=outputs)
        require(made(FakeClock).or_none(), clock=clock)
        meaning = Meaning(program, policies)
        self.manifest = meaning.manifest
        self.clock = FakeClock() if clock is None else clock
        self.calls: list[ToolCall] = []
        self.complaints: list[FakeError] = []
        self._tools = {site.call.id: site.call.tool for site in meaning.calls if isinstance(site.call, ToolPart)}
        self._outputs = dict(outputs or {})
        self._given: dict[str, int] = {}
        self._asking = {site.call.id for site in meaning.calls if not isinstance(site.call, ToolPart)}
        self._program = program.name
        known = {*self._tools, *self._tools.values()}
        for name, output in self._outputs.items():
            if name not in known:
                help = near_words(name, sorted(known)) or f"it has {', '.join(f'`{one}`' for one in sorted(known))}"
                raise FakeError(f"program `{program.name}` has no tool and no tool step `{name}`: {help}")
            self._require_all(self._tools.get(name, name), output)

    def require_asking(self, steps: Iterable[str]) -> None:
        """Raise FakeError for a step of a script that asks no model, such as one that is misspelt."""
        for step in steps:
            if step not in self._asking:
                known = ", ".join(f"`{one}`" for one in sorted(self._asking)) or "none"
                help = near_words(step, sorted(self._asking)) or f"it has {known}"
                raise FakeError(f"program `{self._program}` has no step `{step}` that asks a model: {help}")

    def of(self, name: str) -> list[ToolCall]:
        """Return the calls of a tool, or of a step."""
        require(TEXT, name=name)
        return [call for call in self.calls if name in (call.tool, call.step)]

    def check(self) -> None:
        """Raise the first complaint, if there is one."""
        if self.complaints:
            raise self.complaints[0]

    def has(self, name: str) -> bool:
        """Return whether the program calls a tool of this name."""
        return name in self._tools.values()

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the next output of a tool, as the machine asks for it, and keep a record of the call."""
        key, token = context.idempotency_key, context.resume_token
        call = ToolCall(name, context.step, args, context.visit, context.attempt, key, token)
        try:
            output = await self._output(name, args, context)
        except FakeError as error:
            self.complaints.append(error)
            raise
        except BaseException as error:
            self.calls.append(replace(call, error=error))
            raise
        self.calls.append(replace(call, output=output))
        return output

    async def _output(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        source = context.step if context.step in self._outputs else name
        if source not in self._outputs:
            spec = self.manifest.get(name)
            if spec is not None and spec.returns is not None and not spec.returns.admits("null"):
                raise FakeError(f"tool `{name}` has no output: give one for `{name}`, or for step `{context.step}`")
            return None
        output = self._chosen(source, self._outputs[source], args)
        if isinstance(output, _Takes):
            self.clock.advance(output.seconds)
            output = output.output
        if isinstance(output, BaseException) or (isinstance(output, type) and issubclass(output, BaseException)):
            raise output
        if callable(output) and not isinstance(output, type):
            output = output(**args)
            output = await output if inspect.isawaitable(output) else output
        self._require(name, output)
        return output

    def _chosen(self, source: str, output: Any, args: Mapping[str, Any]) -> Any:
        """Return the present output of a list, or the one for an argument."""
        if isinstance(output, _ByArgument):
            value = args.get(output.argument)
            if value not in output.outputs:
                raise FakeError(f"`{source}` has no output for {value!r} as `{output.argument}`")
            return self._chosen(f"{source} {value!r}", output.outputs[value], args)
        if not _is_list(output):
            return output
        number = self._given.get(source, 0)
        self._given[source] = number + 1
        item = output[min(number, len(output) - 1)]
        return self._chosen(source, item, args) if isinstance(item, _ByArgument) else item

    def _require_all(self, tool: str, output: Any) -> None:
        """Raise FakeError for an output of the test that is not of the declared type, also in a list or mapping."""
        if isinstance(output, _ByArgument):
            for one in output.outputs.values():
                self._require_all(tool, one)
        elif _is_list(output):
            if not output:
                raise FakeError(f"the list of outputs of `{tool}` is empty")
            for one in output:
                self._require_all(tool, one) if isinstance(one, _ByArgument) else self._require(tool, one)
        else:
            self._require(tool, output)

    def _require(self, tool: str, output: Any) -> None:
        """Raise FakeError for a single output that is not of the declared type."""
        value = output.output if isinstance(output, _Takes) else output
        spec = self.manifest.get(tool)
        if spec is not None and isinstance(value, ToolError) and value.name not in (spec.errors or ()):
            known = sorted(spec.errors or ())
            help = near_words(value.name, known) or "its manifest lists " + (", ".join(known) or "none")
            raise FakeError(f"tool `{tool}` has no error `{value.name}`: {help}")
        if spec is None or callable(value) or isinstance(value, BaseException):
            return
        if isinstance(value, Suspend):
            if not spec.suspends:
                raise FakeError(f"tool `{tool}` can't suspend: its manifest has no `suspends: true`")
            return
        why = _refusal(value, spec.returns)
        if why is not None:
            raise FakeError(f"the output {value!r} of tool `{tool}` is not of its type: it {why}")


def _is_list(output: Any) -> bool:
    return isinstance(output, list | tuple) and not isinstance(output, Suspend)


def _refusal(value: Any, spec: TypeSpec | None) -> str | None:
    try:
        frozen = freeze(value)
    except ValueRefused as error:
        return f"is no value: {error}"
    return None if spec is None else refusal(frozen, spec)
