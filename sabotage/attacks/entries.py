"""Injection at the interface: values from a caller to a run, and from a run to a caller and tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.injection import Interceptor, called_tools
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import WRITE
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.odd_values import NO_VALUES, strange, value_of
from stepward.sabotage.playing.trial import MAX_DELIVERIES, Trial
from stepward.sabotage.playing.variants import variant
from stepward.sabotage.playing.world import AroundTools
from stepward.sabotage.reference import Reference
from stepward.sabotage.target import Target
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.refusals import DeliveryRefused, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import Suspend, ToolContext, Tools

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


class InputsIllTyped(Attack):
    """A run is started with an input that is missing, ill-typed, not a value, or not declared."""

    family = Family.INJECTION
    surface = "inputs of a run"
    action = "missing, unlisted, ill-typed"
    invariant = Invariant.DATA
    defence = "inputs are checked against `inputs` before anything is written or called"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Spoil the inputs, and check that the run is refused if the reference refuses them."""
        trial = Trial(case, faults=False)
        inputs = self._spoilt(case, trial.inputs)
        target = case.target
        try:
            Reference(target.program, target.policies, target.plan.waived).start(inputs)
        except ValueError:
            return self._refused(trial, inputs)
        trial.inputs = inputs
        trial.finish()
        return Outcome.ABSORBED

    def _spoilt(self, case: Case, inputs: Mapping[str, Any]) -> dict[str, Any]:
        from hypothesis import strategies as st

        types = case.target.plan.input_types
        how = case.pick("spoilt", st.sampled_from(("wrong", "missing", "unlisted") if types else ("unlisted",)))
        if how == "unlisted":
            name = case.pick("name", st.sampled_from(("unlisted", "__class__", "$x", *case.target.calls)))
            return {**inputs, name: case.pick("value", st.sampled_from((1, "x", None)))}
        name = case.pick("name", st.sampled_from(sorted(types)))
        if how == "missing":
            return {key: value for key, value in inputs.items() if key != name}
        return {**inputs, name: value_of(case.pick("value", strange(case.target, types[name], is_reply=False)))}

    def _refused(self, trial: Trial, inputs: Mapping[str, Any]) -> Outcome:
        case = trial.case
        case.act(f"run the program with inputs that it does not take: {sorted(inputs)}")
        try:
            case.do(trial.machine().run(case.target.program, inputs, run_id=trial.run, by=trial.by))
        except RunRefused:
            is_new = trial.store.inner.head(trial.run) is not None or trial.store.inner.vault.get(trial.run)
            case.hold(
                not trial.world.attempts and not is_new, Invariant.REFUSAL, "a run that was refused left something"
            )
            return Outcome.BLOCKED
        raise Breach(Invariant.DATA, "a run started with inputs that are not as its program declares them")


def _wrong(target: Target, spec: TypeSpec | None) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for descriptions of invalid outputs."""
    from hypothesis import strategies as st

    kinds = [st.sampled_from([{"specimen": name} for name in NO_VALUES])]
    others = None if spec is None else target.others(spec)
    if others is not None and not others.is_empty:
        kinds.insert(0, others.map(lambda value: {"value": value, "how": "as it is"}))
    return st.one_of(kinds)


_IDS: Final[dict[str, Callable[[str], object]]] = {
    "nothing": lambda _: "",
    "200 characters": lambda run: run.ljust(200, "a"),
    "201 characters": lambda run: run.ljust(201, "a"),
    "spaces around": lambda run: f" {run} ",
    "a line feed": lambda run: f"{run}\n",
    "a NUL": lambda run: f"{run}\x00",
    "a character of no width": lambda run: f"{run}\u200b",
    "half a character": lambda run: f"{run}\ud800",
    "letters beyond ASCII": lambda run: f"r\u00fcck {run}",
    "marks of a path": lambda run: f"../{run}/%2e",
    "marks of a query": lambda run: f"{run}'; --",
    "a number": lambda _: 1,
    "bytes": lambda run: run.encode(),
    "a list": lambda run: [run],
}
"""Strange ids, some of them valid, each made from a new id."""


class StrangeRunId(Attack):
    """A run is started under an id that is too long, not printable, not a text, or has a meaning elsewhere."""

    family = Family.INJECTION
    surface = "ids of runs"
    action = "empty, too long, not printable, not a text, or with characters of paths and queries"
    invariant = Invariant.REFUSAL
    defence = "an id has 1 to 200 printable characters, and is used in a query only as a parameter"
    severity = "medium"

    def play(self, case: Case) -> Outcome:
        """Start a run under such an id, and check that it is refused or stored under exactly that id."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        how = case.pick("id", st.sampled_from(sorted(_IDS)))
        run_id: Any = _IDS[how](trial.run)
        case.act(f"start a run whose id is or has {how}")
        is_good = isinstance(run_id, str) and 1 <= len(run_id) <= 200 and all(map(str.isprintable, run_id))
        if is_good:
            trial.run = run_id
            run = trial.finish()
            is_kept = run.id == run_id and trial.store.inner.head(run_id) is not None
            case.hold(is_kept, Invariant.IDENTITY, f"the id with {how} is not the one that is kept")
            return Outcome.ABSORBED
        try:
            case.do(trial.machine().run(case.target.program, trial.inputs, run_id=run_id, by=trial.by))
        except RunRefused:
            case.hold(not trial.world.attempts, Invariant.REFUSAL, "a run that was refused called a tool")
            return Outcome.BLOCKED
        raise Breach(Invariant.REFUSAL, f"a run started whose id is or has {how}")


class _Delivered(Attack):
    """A person delivers an ill-typed output to a waiting run."""

    family = Family.INJECTION
    invariant = Invariant.DATA
    severity = "high"

    def _refused(self, trial: Trial, run: Run, what: str, step: str, work: Any) -> None:
        """Check that a delivery is refused, and that only a record of the refusal changes the run."""
        case = trial.case
        case.act(f"{what} `{step}` with {case.choices.decisions[self._name(run, step)]}")
        try:
            case.do(work)
        except DeliveryRefused:
            now = trial.reload()
            is_same = (now.status, now.step, now.suspensions, now.doubts) == (
                run.status,
                run.step,
                run.suspensions,
                run.doubts,
            )
            case.hold(is_same, Invariant.REFUSAL, f"a refused delivery made the run {now.status} at `{now.step}`")
            return
        raise Breach(Invariant.DATA, f"`{step}` took an output that is not of its type")

    def _name(self, run: Run, step: str) -> str:
        return f"ill-typed output for {step}, record {run.seq}"

    def _output(self, trial: Trial, run: Run, step: str) -> Any:
        case, target = trial.case, trial.target
        among = target.once(("wrong", step), lambda: _wrong(target, target.calls[step].returns))
        return value_of(case.pick(self._name(run, step), among))


class PayloadIllTyped(_Delivered):
    """The holder of a resume token delivers a payload that is ill-typed or not a value."""

    surface = "resume payload"
    action = "another type, or not a value"
    defence = "a payload is checked against `returns` before the token is used"
    weight = 2
    needs = (Need("no tool suspends", lambda target: target.waits or target.program.tools),)

    def play(self, case: Case) -> Outcome:
        """Let one more tool suspend. At each stop deliver wrongly, and then correctly."""
        from hypothesis import strategies as st

        target, declared = case.target, case.target.program.tools or {}
        names = [call.tool for call in called_tools(case) if call.tool in declared]
        if names:
            name = case.pick("suspends", st.sampled_from(names))
            target = variant(target, f"{name} suspends", lambda data: data["tools"][name].update(suspends=True))
        trial = Trial(case, target=target, faults=False)
        trial.world.decides.append(
            lambda asking: CallAnswer("suspends", {"asks": asking.call.id}) if asking.call.may_suspend else None
        )
        machine = trial.machine()
        run = trial.start(machine)
        tried = 0
        while run.suspensions and not run.is_over and tried < MAX_DELIVERIES:
            token = run.suspensions[0]
            payload = self._output(trial, run, token.step)
            self._refused(trial, run, "resume", token.step, machine.resume(token.token, payload, by=trial.settler))
            tried += 1
            run = trial.deliver(trial.reload(), machine)
        trial.oracle.judge(trial.carry_on(run, machine))
        return Outcome.BLOCKED if tried else Outcome.NOT_APPLICABLE


class ReconciliationIllTyped(_Delivered):
    """A person reconciles a write as done, with an output that is ill-typed or not a value."""

    surface = "reconciliation"
    action = "an output of another type, or not a value"
    defence = "the output of a reconciliation is checked against `returns`, like any other output"
    needs = (WRITE,)

    def play(self, case: Case) -> Outcome:
        """Lose the answers of writes, reconcile them wrongly, and then correctly."""
        trial = Trial(case, faults=False)
        trial.world.decides.append(Interceptor(case, lambda call: call.writes, lambda _: CallAnswer("unknown-done")))
        machine = trial.machine()
        run = trial.start(machine)
        tried = 0
        for _ in range(MAX_DELIVERIES):
            if run.is_over:
                break
            if run.doubts:
                step = run.doubts[0].step
                output = self._output(trial, run, step)
                self._refused(
                    trial, run, "reconcile", step, machine.reconcile(run.id, step, "done", output, by=trial.settler)
                )
                tried += 1
            run = trial.deliver(run, machine)
        trial.oracle.judge(run)
        return Outcome.BLOCKED if tried else Outcome.NOT_APPLICABLE


# -- values handed out -------------------------------------------------------------------------------------------------


def thawed(value: Any) -> Any:
    """Return a mutable copy of a value."""
    if isinstance(value, Suspend):
        return Suspend(thawed(value.request))
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list | tuple) else value


def spoil(value: Any) -> None:
    """Change everything that can be changed in a value, also past its class's protection."""
    if isinstance(value, Suspend):
        spoil(value.request)
    elif isinstance(value, dict):
        for item in [*value.values()]:
            spoil(item)
        for key in [*value]:
            dict.__setitem__(value, key, "changed")
        dict.__setitem__(value, "changed", True)
    elif isinstance(value, list | tuple):
        for item in value:
            spoil(item)
        if isinstance(value, list):
            value.append("changed")


class _Keeping(AroundTools[Tools]):
    """Tools that hold references to their arguments and outputs, and change them at every call."""

    def __init__(self, inner: Tools) -> None:
        super().__init__(inner)
        self.held: list[Any] = []

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        output = thawed(await self._inner.call(name, args, context))
        self.spoil()
        spoil(args)
        self.held += [args, output]
        return output

    def spoil(self) -> None:
        """Change every held value."""
        for value in self.held:
            spoil(value)


class HandOutsChanged(Attack):
    """Tools change their arguments and outputs, the caller changes inputs and results; then the program runs again."""

    family = Family.INJECTION
    surface = "arguments, outputs, inputs, payloads and results in the caller's process"
    action = "changed after they were passed on"
    invariant = Invariant.HISTORY
    defence = "values that enter or leave the machine are copied, and stored values are immutable"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Hold everything that crosses the interface, and change it repeatedly."""
        trial = Trial(case)
        spoilers: list[_Keeping] = []

        def around(inner: Tools) -> Tools:
            spoilers.append(_Keeping(inner))
            return spoilers[-1]

        machine = trial.machine(around=around)
        mine = spoilers[0]
        inputs = thawed(trial.inputs)
        mine.held.append(inputs)
        case.act("run the program, and change all that was handed over whenever a tool is called, and after the run")
        run = case.do(machine.run(trial.target.program, inputs, run_id=trial.run, by=trial.by))
        for _ in range(MAX_DELIVERIES):
            mine.spoil()
            if run.is_over:
                break
            if run.suspensions and not run.doubts and run.status != "RUNNING":
                case.count()
                payload = thawed(trial.payload(run.suspensions[0].step))
                mine.held.append(payload)
                run = case.do(machine.resume(run.suspensions[0].token, payload, by=trial.settler))
            else:
                run = trial.deliver(run, machine)
        trial.oracle.judge(run)
        before = run.snapshot()
        mine.spoil()
        for handed in (run.output, run.view("tool"), [one.request for one in run.suspensions]):
            spoil(handed)
        again = trial.reload()
        case.hold(again.snapshot() == before, Invariant.HISTORY, "the run is another one since somebody changed it")
        trial.oracle.judge(again)
        # What a program says is shared by all its runs: it must be as it was for the next one.
        Trial(case, "the next run").finish()
        return Outcome.ABSORBED if mine.held else Outcome.NOT_APPLICABLE
