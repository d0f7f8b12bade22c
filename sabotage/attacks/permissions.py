"""Injection into calls: forged names of tools, and tools and arguments that no policy allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.injection import called_tools, tools_of
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import call_in, under, variant
from stepward.sabotage.playing.world import ProcessModel
from stepward.sabotage.target import Target
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.values import as_text

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


# -- names -------------------------------------------------------------------------------------------------------------

_FORGED: Final[dict[str, tuple[str, ...]]] = {
    "a module": ("_drain", "getcwd", "__init__", "__getattribute__", "os.getcwd"),
    "a module with `__all__`": ("_drain", "getcwd", "unlisted", "__dir__", "os.getcwd"),
    "an object": ("_drain", "__init__", "__class__", "__setattr__", "_Shop__drain"),
    "a mapping": ("_drain", "pop", "__class__", "clear", ""),
}
"""Names that exist but are not tools, by kind of container."""


def _shop(kind: str, tools: list[str], called: list[str]) -> Any:
    """Return a container with tools and other names. Each function in it only records its call."""

    def recorder(name: str, module: str = "shop") -> Callable[..., None]:
        def call(**_: Any) -> None:
            called.append(name)

        call.__module__ = module
        return call

    offered = {name: recorder(name) for name in tools}
    if kind == "a mapping":
        return offered
    shop: Any = ModuleType("shop") if kind != "an object" else type("Shop", (), {})()
    hidden = {"_drain": "shop", "_Shop__drain": "shop"}
    if kind != "an object":
        hidden |= {"unlisted": "shop", "getcwd": "os"}
    for name, function in {**offered, **{name: recorder(name, module) for name, module in hidden.items()}}.items():
        setattr(shop, name, function)
    if kind == "a module with `__all__`":
        shop.__all__ = [*tools]
    return shop


class ForgedToolName(Attack):
    """A program calls names of a module or object that are not tools: private names, dunders, imports."""

    family = Family.INJECTION
    surface = "names of tools in a program that was not checked"
    action = "names that are not tools"
    invariant = Invariant.PERMISSION
    defence = (
        "tools are only the public functions that a module or object defines itself, and a run with a missing "
        "tool is refused"
    )
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Forge the tool of one step, and check that the machine does not even start."""
        from hypothesis import strategies as st

        calls = tools_of(case.target)
        step = case.pick("forged in", st.sampled_from([call.id for call in calls]))
        kind = case.pick("the tools are", st.sampled_from(list(_FORGED)))
        own = case.target.calls[step].tool
        near = (own.upper(), f" {own}", f"{own}\u200b", f"{own}.__call__", f"_{own}")
        known = {call.tool for call in calls}
        names = [name for name in (*_FORGED[kind], *near) if name and name not in known]
        forged = case.pick("forged name", st.sampled_from(names))

        def forge(data: dict[str, Any]) -> None:
            call_in(data, step)["tool"] = forged
            if own in data.get("tools", {}):
                data["tools"][forged] = data["tools"][own]

        target = variant(case.target, f"forged {step} {forged}", forge)
        return self._refused(Trial(case, target=target, faults=False), kind, forged, sorted(known))

    def _refused(self, trial: Trial, kind: str, forged: str, known: list[str]) -> Outcome:
        case, target = trial.case, trial.target
        called: list[str] = []
        machine = ExecutionVM(
            _shop(kind, known, called),
            ProcessModel(trial.world, Points()),
            trial.store,
            target.policies,
            checker=None,
            key=case.key,
            clock=trial.clock,
        )
        case.act(f"run a program that calls `{forged}`, where {kind} has the tools")
        trial.oracle.rest()
        try:
            case.do(machine.run(target.program, trial.inputs, run_id=trial.run, by=trial.by))
        except RunRefused as error:
            is_said = f"`{forged}`" in str(error)
            case.hold(is_said, Invariant.REFUSAL, f"the run is refused for something else: {error}")
            case.hold(not called, Invariant.REFUSAL, f"a refused run called {called}")
            case.hold(trial.store.inner.head(trial.run) is None, Invariant.REFUSAL, "a refused run left records")
            return Outcome.BLOCKED
        raise Breach(Invariant.PERMISSION, f"the machine takes `{forged}` of {kind} for a tool, and called {called}")


# -- policies ----------------------------------------------------------------------------------------------------------


def _rejected(trial: Trial) -> bool:
    """Whether the journal has a rejection of a call by a policy."""
    return any(one["kind"] == "rejected" and one["body"].get("rule") == "allow" for one in trial.oracle.records)


class ToolOutsideThePolicy(Attack):
    """A program calls a tool that is not in the allow-list of its policy."""

    family = Family.INJECTION
    surface = "program that was not checked"
    action = "a tool that is not in the allow-list"
    invariant = Invariant.PERMISSION
    defence = "every call is checked against the allow-lists before it starts"
    weight = 2
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Run under a policy that allows all tools but one, and check that this one is never called."""
        from hypothesis import strategies as st

        names = list(dict.fromkeys(call.tool for call in tools_of(case.target)))
        called = {call.tool for call in called_tools(case)}
        case.needs(called)
        barred = case.pick("not allowed", st.sampled_from([name for name in names if name in called]))
        policy = {"policy": "gate", "allow": [name for name in names if name != barred]}
        trial = Trial(case, target=under(case.target, f"without {barred}", policy), faults=False)
        case.log(f"a policy allows all tools but `{barred}`")
        trial.finish()
        return Outcome.BLOCKED if _rejected(trial) else Outcome.NOT_APPLICABLE


class ArgumentOutsideThePolicy(Attack):
    """A program calls a tool with arguments that the policy's condition does not allow."""

    family = Family.INJECTION
    surface = "arguments of a tool"
    action = "arguments just over a limit of the policy"
    invariant = Invariant.PERMISSION
    defence = (
        "the condition on `$args` is evaluated with the actual arguments, and if it can't be evaluated, the call "
        "is not allowed"
    )
    weight = 2
    needs = (Need("no tool has arguments", lambda target: any(map(_args, tools_of(target)))),)

    def play(self, case: Case) -> Outcome:
        """Draw a condition on one argument, and check that the tool is called if and only if the reference allows
        it."""
        from hypothesis import strategies as st

        calls = [call for call in called_tools(case) if _args(call)]
        case.needs(calls)
        step = case.pick("limited", st.sampled_from([call.id for call in calls]))
        call = case.target.calls[step]
        name = case.pick("argument", st.sampled_from(sorted(_args(call))))
        limits = case.target.once(("limits", step, name), lambda: _limits(case.target, name, _args(call)[name]))
        when = case.pick("allowed when", limits)
        others = {one.tool for one in tools_of(case.target)} - {call.tool}
        policy = {"policy": "limit", "allow": [*sorted(others), {"tool": call.tool, "when": when}]}
        trial = Trial(case, target=under(case.target, f"{call.tool} when {when}", policy), faults=False)
        case.log(f"a policy allows `{call.tool}` only when {when}")
        trial.finish()
        if _rejected(trial):
            return Outcome.BLOCKED
        is_called = any(made_call.asking.call.tool == call.tool for made_call in trial.world.attempts)
        return Outcome.ABSORBED if is_called else Outcome.NOT_APPLICABLE


def _args(call: CallPlan) -> Mapping[str, TypeSpec | None]:
    """Return the arguments of a tool with their types, if known."""
    if call.arg_types is not None:
        return call.arg_types
    return dict.fromkeys(getattr(call.call, "args", {}))


def _limits(target: Target, name: str, spec: TypeSpec | None) -> SearchStrategy[str]:
    """Return conditions on an argument, around the constants of the program."""
    from hypothesis import strategies as st

    arg = f"$args.{name}"
    numbers = [_literal(number) for number in target.constants.numbers]
    texts = [json.dumps(text) for text in (*target.constants.texts, "x", "") if text.isalnum() or not text]
    kinds: list[SearchStrategy[str]] = []
    if spec is None or spec.admits("number") or spec.admits("integer"):
        kinds.append(
            st.builds(
                "{} {} {}".format, st.just(arg), st.sampled_from(("<", ">=", "<=", ">")), st.sampled_from(numbers)
            )
        )
    if spec is None or spec.admits("string"):
        operators = ("==", "!=", "starts_with", "contains")
        kinds.append(st.builds("{} {} {}".format, st.just(arg), st.sampled_from(operators), st.sampled_from(texts)))
        kinds.append(st.integers(0, 20).map(lambda length: f"len({arg}) < {length}"))
    if spec is None or spec.admits("boolean"):
        kinds.append(st.sampled_from((f"{arg} == true", f"not {arg}")))
    kinds.append(st.sampled_from((f"not defined({arg})", f"{arg} == null", f"{arg}.amount < 100", "$args.other == 1")))
    return st.one_of(kinds)


def _literal(number: int | Decimal) -> str:
    return as_text(number)
