"""Load: values that are too large, requests that are too frequent, and requests from within a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.injection import Interceptor, kind_of_outcome, outcome_of
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import Machine
from stepward.sabotage.playing.odd_values import nested, soiled
from stepward.sabotage.playing.trial import MAX_DELIVERIES, Trial
from stepward.sabotage.playing.world import AroundTools, Asking
from stepward.sabotage.reference import Reference
from stepward.sabotage.reference.plain import size as plain_size
from stepward.sabotage.reference.plain import to_value
from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Limits
from stepward.vm.machine.tools import ToolContext, Tools
from stepward.vm.values import ValueRefused, freeze


def size(value: Any) -> int:
    """Return the size of a value in bytes, as limits count it, or 0 if it is not a value."""
    try:
        return len(canonical(portable(freeze(value))).encode())
    except ValueRefused:
        return 0


# -- size --------------------------------------------------------------------------------------------------------------


MOST: Final = 3_000
"""The limit of an output in bytes when it is tested exactly: far above any random output."""


def filled(value: Any, spec: TypeSpec | None, most: int) -> Any:
    """Return a value padded with text to exactly `most` bytes, or None if its type has no room."""
    empty = (
        "" if spec is None or isinstance(value, str) else {**value, "ballast": ""} if isinstance(value, dict) else None
    )
    if empty is None:
        return None
    ballast = "x" * (most - size(empty))
    full = ballast if isinstance(empty, str) else {**empty, "ballast": ballast}
    fits = spec is None or refusal(freeze(full), spec) is None
    # Fractions and some texts are longer in a record than the reference counts.
    return full if fits and size(full) == most == plain_size(to_value(full)) else None


class OutputTooLarge(Attack):
    """A tool or model returns an output of exactly the allowed size, one byte less or one more."""

    family = Family.LOAD
    surface = "outputs and replies"
    action = "as large as allowed, or larger"
    invariant = Invariant.BOUNDS
    defence = "if an output is larger than `max_output_bytes`, the step fails before the journal is written"
    severity = "high"
    needs = (Need("no output may be long", lambda target: any(map(has_room, target.calls.values()))),)

    def play(self, case: Case) -> Outcome:
        """Fill an output up to the limit, and check that the limit holds to the byte and bounds every record."""
        from hypothesis import strategies as st

        beside = case.pick("beside the limit", st.sampled_from((1, 0, -1, 1_000)))
        trial = Trial(case, faults=False, limits=Limits(output_bytes=MOST))
        case.log(f"outputs may have {MOST} bytes, and some have {MOST + beside}")
        long: list[Asking] = []

        def answer(asking: Asking) -> CallAnswer:
            call = asking.call
            value = case.pick(f"answer: {asking.name}", case.target.output(call))
            full = filled(value, call.returns, MOST + beside)
            if full is None:
                return CallAnswer("returns", value)
            long.append(asking)
            return CallAnswer("returns", full)

        trial.world.decides.append(Interceptor(case, has_room, answer))
        trial.finish()
        for asking in long:
            is_taken = kind_of_outcome(trial, asking) == "success"
            case.hold(is_taken == (beside <= 0), Invariant.BOUNDS, f"`{asking.call.id}` is not held to its limit")
        return outcome_of(trial, long)


def has_room(call: CallPlan) -> bool:
    """Whether an output may contain text of any length."""
    spec = call.returns
    if call.may_suspend or call.allowed is not None:
        return False
    if spec is None:
        return True
    is_open = spec.admits("object") and spec.additional_properties is not False
    return spec.enum is None and (is_open or (spec.admits("string") and not (spec.pattern or spec.max_length)))


SOME: Final = 900
"""The size of each output in bytes when their sum is limited."""


class StateTooLarge(Attack):
    """Outputs of allowed size exceed together the limit of a run."""

    family = Family.LOAD
    surface = "outputs, payloads and inputs together"
    action = "more data than a run may contain"
    invariant = Invariant.BOUNDS
    defence = "if an output would make the state too large, the step fails, and inputs that are too large are refused"
    severity = "medium"

    def play(self, case: Case) -> Outcome:
        """Limit the state below what the run would need, and add up its outputs."""
        from hypothesis import strategies as st

        most = case.pick("bytes of state", st.sampled_from((800, 1_000, 2_000, 4_000, 40)))
        trial = Trial(case, faults=False, limits=Limits(state_bytes=most))
        case.log(f"outputs have {SOME} bytes where they can, and all together may have {most}")

        def answer(asking: Asking) -> CallAnswer:
            call = asking.call
            value = case.pick(f"answer: {asking.name}", case.target.output(call))
            full = filled(value, call.returns, SOME)
            return CallAnswer("returns", value if full is None else full)

        trial.world.decides.append(Interceptor(case, has_room, answer))
        # The reference does not add up sizes, so it can't check this run.
        trial.oracle.rest()
        machine = trial.machine()
        try:
            run = trial.start(machine)
            for _ in range(MAX_DELIVERIES):
                _add_up(case, run, most)
                if run.is_over:
                    break
                run = trial.deliver(run, machine)
        except RunRefused:
            case.hold(size(trial.inputs) + 1_000 > most, Invariant.REFUSAL, "small inputs are refused for their size")
            return Outcome.BLOCKED
        except DeliveryRefused:
            run = trial.reload()
            _add_up(case, run, most)
            return Outcome.BLOCKED
        case.hold(not trial.faults(), Invariant.REPLAY, "an honest journal is called damaged")
        is_full = any(b"the state would have" in entry.record for entry in trial.store.inner.read(run.id))
        return Outcome.BLOCKED if is_full else Outcome.ABSORBED


def _add_up(case: Case, run: Run, most: int) -> None:
    """Check that the outputs of a run are within the limit. Raises Breach."""
    plan = case.target.plan
    branches = {number for number, body in plan.bodies.items() if body.is_branch}
    # What branches have left is in the output of their step as well.
    steps = {f"{step.id}.output" for number, step in enumerate(plan.steps) if number not in branches}
    total = sum(size(value) for name, value in run.view("tool").items() if name in steps)
    case.hold(total <= most, Invariant.BOUNDS, f"the outputs of the run have {total} bytes, and {most} are allowed")


_HUGE: Final[dict[str, Callable[[], Any]]] = {
    "64 levels": lambda: nested(64),
    "65 levels": lambda: nested(65),
    "1,000 digits": lambda: 10**999,
    "1,001 digits": lambda: 10**1000,
    "20,000 levels": lambda: nested(20_000),
    "a megabyte of text": lambda: "x" * (1 << 20),
    "just a megabyte": lambda: "x" * ((1 << 20) - 2),
    "20,000 items": lambda: [0] * 20_000,
    "a field of 20,000 letters": lambda: {"k" * 20_000: 1},
}
QUICK: Final = ("64 levels", "65 levels", "1,000 digits", "1,001 digits")


def _huge(value: Any, call: CallPlan, name: str) -> Any:
    """Return a value with a huge part, if the type of the call has room for it."""
    big = _HUGE[name]()
    if call.returns is None:
        return big
    if isinstance(big, str):
        return soiled(value, call.returns, big, {"ballast": big})
    if isinstance(value, dict):
        return {**value, "ballast": big}
    return [*value, big] if isinstance(value, list) else big


class HugeValues(Attack):
    """Outputs, replies and inputs are as deep and as long, and have as many digits, as possible."""

    family = Family.LOAD
    surface = "outputs, replies and inputs"
    action = "more depth, length and digits than the limits allow"
    invariant = Invariant.BOUNDS
    defence = "the depth, digits and bytes of a value are limited when it enters the machine"
    severity = "high"
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Make one entry huge, and check that it is accepted or refused as the limits say."""
        from hypothesis import strategies as st

        # Fast cases are twice as frequent.
        name = case.pick("huge", st.sampled_from([*_HUGE, *QUICK]))
        types = case.target.plan.input_types
        entries = ["calls", *types] if case.target.calls else [*types]
        case.needs(entries)
        entry = case.pick("given to", st.sampled_from(entries))
        trial = Trial(case, faults=False)
        case.log(f"{name} for {entry}")
        if entry != "calls":
            return self._start(trial, {**trial.inputs, entry: _HUGE[name]()})

        def answer(asking: Asking) -> CallAnswer:
            value = case.pick(f"answer: {asking.name}", case.target.output(asking.call))
            return CallAnswer("wrong", _huge(value, asking.call, name))

        meddler = Interceptor(case, lambda call: not call.may_suspend, answer)
        trial.world.decides.append(meddler)
        trial.finish()
        return outcome_of(trial, meddler.met)

    def _start(self, trial: Trial, inputs: dict[str, Any]) -> Outcome:
        case, target = trial.case, trial.target
        try:
            Reference(target.program, target.policies, target.plan.waived).start(inputs)
        except ValueError:
            is_wanted = False
        else:
            is_wanted = True
            trial.inputs = inputs
        case.count()
        machine = trial.machine()
        try:
            run = case.do(machine.run(target.program, inputs, run_id=trial.run, by=trial.by))
        except RunRefused:
            case.hold(not is_wanted, Invariant.REFUSAL, "inputs that are as declared are refused")
            return Outcome.BLOCKED
        case.hold(is_wanted, Invariant.BOUNDS, "a run started with an input beyond the limits")
        trial.oracle.judge(trial.carry_on(run, machine))
        return Outcome.ABSORBED


# -- from within -------------------------------------------------------------------------------------------------------

Deed = Callable[[Machine, Trial, ToolContext], Awaitable[Any]]

_DEEDS: Final[dict[str, tuple[Deed, type[Exception] | None]]] = {
    "run": (
        lambda machine, trial, _: machine.run(trial.target.program, trial.inputs, run_id=trial.run, by=trial.by),
        None,
    ),
    "recover": (lambda machine, trial, _: machine.recover(trial.run), RunBusy),
    "resume": (
        lambda machine, trial, context: machine.resume(context.resume_token or f"{trial.run}.x", 1, by=trial.settler),
        DeliveryRefused,
    ),
    "reconcile": (
        lambda machine, trial, context: machine.reconcile(trial.run, context.step, "done", 1, by=trial.settler),
        DeliveryRefused,
    ),
    "erase": (lambda machine, trial, _: machine.erase(trial.run), RunBusy),
    "cancel": (lambda machine, trial, _: machine.cancel(trial.run), None),
}
"""The requests of a tool about its own run, each with the expected refusal, or None if it is accepted."""


class _Within(AroundTools[Tools]):
    """Tools, one of which makes a request to a machine during its call."""

    def __init__(self, inner: Tools, deed: Callable[[ToolContext], Awaitable[None]]) -> None:
        super().__init__(inner)
        self._deed = deed

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        await self._deed(context)
        return await self._inner.call(name, args, context)


class ReentrantTool(Attack):
    """A tool runs, resumes, recovers, reconciles, cancels or erases its own run, by another machine or by the one that
    calls it."""

    family = Family.LOAD
    surface = "the machine, from within a tool"
    action = "started, recovered, resumed or cancelled: the same run that calls the tool"
    invariant = Invariant.DRIVER
    defence = "the machine that drives a run holds its lease, and no other machine drives the run at that time"
    severity = "high"
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Let one call of a tool do so, and check that the run continues as predicted."""
        from hypothesis import strategies as st

        which = case.pick("deed", st.sampled_from(list(_DEEDS)))
        number = case.pick("calls before it", st.sampled_from((0, 0, 1, 2, 0, 3)))
        deed, refusal = _DEEDS[which]
        trial = Trial(case, faults=False)
        is_own = case.pick("it asks its own machine", st.booleans())
        called = 0
        effects, under_way = -1, 0

        async def do(context: ToolContext) -> None:
            nonlocal called, effects, under_way
            called += 1
            if called != number + 1:
                return
            case.act(f"`{context.step}` asks {'its' if is_own else 'another'} machine to {which} its own run")
            if which in ("cancel", "erase"):
                # A run learns of its cancellation at its next write, which the reference can't predict.
                trial.oracle.rest()
                effects = len(trial.world.effects)
                steps = case.target.plan.steps
                under_way = next(len(s.calls) for s in steps if any(c.id == context.step for c in s.calls))
            try:
                await deed(machine if is_own else trial.machine(), trial, context)
            except Exception as error:
                # The machine takes an error raised here for an error of the tool.
                if refusal is None or not isinstance(error, refusal):
                    case.error = Breach(Invariant.REFUSAL, f"{which} raised {type(error).__name__}: {error}")
            else:
                if refusal is not None:
                    case.error = Breach(Invariant.DRIVER, f"{which} went well in a run that somebody drives")

        machine = trial.machine(around=lambda inner: _Within(inner, do))
        run = trial.carry_on(trial.start(machine), trial.machine())
        if called <= number:
            trial.oracle.judge(run)
            return Outcome.NOT_APPLICABLE
        if trial.oracle.rests:
            self._cancelled(trial, run, effects + under_way)
            return Outcome.ABSORBED
        trial.oracle.judge(run)
        return Outcome.BLOCKED if refusal is not None else Outcome.ABSORBED

    def _cancelled(self, trial: Trial, run: Run, most: int) -> None:
        """Check that a run that was cancelled during a call starts no effects beyond those under way."""
        case = trial.case
        late = len(trial.world.effects) - most
        case.hold(run.is_over, Invariant.ENDINGS, "a run that was cancelled does not end")
        case.hold(late <= 0, Invariant.ENDINGS, f"{late} effects started after the run was cancelled")
        case.hold(not trial.faults(), Invariant.REPLAY, "an honest journal is called damaged")


class RefusedDeliveries(Attack):
    """A person repeatedly delivers a wrong token to a run."""

    family = Family.LOAD
    surface = "resumption"
    action = "hundreds of refused deliveries"
    invariant = Invariant.BOUNDS
    defence = "a run records only a limited number of refusals"
    severity = "medium"
    weight = 25
    most = 100

    def play(self, case: Case) -> Outcome:
        """Flood the stopped run, and check that its journal stays bounded and that it continues."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        machine = trial.machine()
        run = trial.start(machine)
        stops = case.pick("stops before it", st.integers(0, 2))
        for _ in range(stops):
            if not run.is_over:
                run = trial.deliver(run, machine)
        times = case.pick("deliveries", st.sampled_from((101, 1, 100, 99, 130)))
        case.log(f"deliver {times} times with a token that is not of the run")
        for number in range(times):
            case.count()
            try:
                case.do(machine.resume(f"{trial.run}.{number}", "approve", by=trial.settler))
            except DeliveryRefused:
                continue
            raise Breach(Invariant.DELIVERY, "a token that nobody gave out was taken")
        refused = [one for one in trial.store.inner.read(trial.run) if b'"kind":"refused"' in one.record]
        case.hold(len(refused) <= self.most, Invariant.BOUNDS, f"the journal records {len(refused)} refusals")
        case.hold(
            len(refused) == min(times, self.most), Invariant.KEPT, f"{len(refused)} refusals of {times} are recorded"
        )
        now = trial.reload()
        case.hold((now.status, now.suspensions) == (run.status, run.suspensions), Invariant.DELIVERY, "the run moved")
        trial.oracle.judge(trial.carry_on(now, machine))
        return Outcome.BLOCKED
