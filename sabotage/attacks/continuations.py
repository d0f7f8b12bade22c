"""Continuation: a run is interrupted, and what goes on repeats, reads, spends or forges more than it may.

The program under attack gets a smaller budget of steps, so that its run is interrupted. What goes on is a program of
the attacker. Its tools are not those of the world: they note what they are called with.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.tampering import take_signature
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import SENSITIVE, WRITE
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.machines import Machine
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import variant
from stepward.sabotage.stores.forging import Data, chained, raw_store_of
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import is_sealed
from stepward.vm.journal.store import Head
from stepward.vm.journal.verify import verify
from stepward.vm.language.guardrails import AtMostOnce, ToolSelector
from stepward.vm.language.program import Program
from stepward.vm.machine.apply import apply
from stepward.vm.machine.binding import LOST
from stepward.vm.machine.continuation import MAX_CONTINUATIONS
from stepward.vm.machine.handing import readable
from stepward.vm.machine.history import fold
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import ToolContext
from stepward.vm.values import to_json

MOST_LACKING: Final = 6
"""The most steps that the budget of an interrupted run lacks: writes are mostly made late in a run."""

MOST_REHEARSALS: Final = 6
"""The most runs that are drawn until one writes."""

ACCEPTED: Final = (LOST,)
"""What who continues accepts: our programs lack the steps that rules of the target are about."""

ENDINGS: Final = ("BUDGET_EXCEEDED", "STALLED")
NOBODY: Final = "0" * 64


def _called_once(target: Target) -> frozenset[str]:
    rules = (rule for rule, _ in target.plan.meaning.rules if isinstance(rule, AtMostOnce))
    return frozenset(one.at_most_once.tool for one in rules if isinstance(one.at_most_once, ToolSelector))


ONCE: Final = Need("no rule says that a tool is called at most once", _called_once)


class Written(NamedTuple):
    """A write: its tool, and its arguments."""

    tool: str
    args: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """The write as something that can be compared."""
        return self.tool, to_json(dict(self.args))


class _Desk(EveryTool):
    """Tools that note each call, and return nothing."""

    def __init__(self) -> None:
        self.calls: list[Written] = []

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Note a call."""
        del context
        self.calls.append(Written(name, dict(args)))
        return _nothing()


async def _nothing() -> None:
    return None


FORMS: Final = ("inputs", "no declared arguments", "constants", "sub-steps")
"""How a program states the arguments of its calls: by its inputs, or as constants, to tools that declare no arguments,
to the declared ones, or in the sub-steps of one step."""


class Interrupted:
    """A run of the target that has used up its steps, and a machine that continues it. The oracle looks no more.

    A rehearsal, which makes the same decisions, says how many steps the run would take. With `writes`, that of several
    is taken which writes first, and the run is interrupted after a write. `target` replaces that of the case.
    """

    def __init__(self, case: Case, *, writes: bool = False, target: Target | None = None) -> None:
        from hypothesis import strategies as st

        whole_target = target or case.target
        for number in range(MOST_REHEARSALS if writes else 1):
            rehearsal = Trial(case, f"run {number}" if number else "", faults=False, target=whole_target)
            whole = rehearsal.carry_on(rehearsal.start())
            rehearsal.oracle.rest()
            written = _steps_of_a_write(rehearsal) if writes else None
            if written is not None:
                break
        case.story.clear()
        most = MOST_LACKING if written is None else min(whole.steps - written, MOST_LACKING)
        case.needs(most > 0)
        steps = max(1, whole.steps - case.pick("the steps that it lacks", st.integers(1, most)))
        self.case = case
        self.target = whole_target.once(("interrupted", str(steps)), lambda: _within(whole_target, steps))
        self.trial = Trial(case, rehearsal.name, faults=False, target=self.target)
        self.run = self.trial.carry_on(self.trial.start())
        case.needs(self.run.status in ENDINGS)
        self.history = self.trial.history()
        self.trial.oracle.rest()
        self.desk = _Desk()

    def machine(self, **options: Any) -> Machine:
        """Return a machine whose tools note what they are called with."""
        return self.trial.machine(around=lambda _: self.desk, **options)

    def next(self, run: str | None = None) -> str:
        """Return the id of the continuation of a run."""
        name, _, number = (run or self.run.id).partition("~")
        return f"{name}~{int(number or 0) + 1}"

    def written(self) -> list[Written]:
        """Return the writes that the run has started, but for those with sensitive values."""
        calls = self.target.calls
        found = [one.body for one in self.history.events if one.kind == "intent" and calls[one.body["step"]].writes]
        return [Written(body["tool"], body["args"]) for body in found if not is_sealed(body["args"])]

    def program(self, calls: Sequence[Written] = (), form: str = "inputs", **more: Any) -> Program:
        """Return a program that makes these calls, each whether or not the one before has failed. `form` is one of
        FORMS."""
        args = [json.loads(to_json(dict(one.args))) for one in calls]
        inputs = {f"{name}_{number}": {"default": value} for number, one in enumerate(args) for name, value in
                  one.items()} if form == "inputs" else {}  # fmt: skip
        rest = [
            {
                "id": f"rest_{number}",
                "type": "tool",
                "tool": one.tool,
                "args": {
                    name: f"${name}_{number}" if form == "inputs" else _literal(value)
                    for name, value in args[number].items()
                },
                "on_error": "skip",
            }
            for number, one in enumerate(calls)
        ]
        steps: list[Data] = rest
        if form == "sub-steps" and rest:
            steps = [{"id": "rest_all", "type": "parallel", "parallel_steps": rest, "on_error": "skip"}]
        known = self.target.program.to_dict()
        same_fields: Data = {name: known[name] for name in ("language", "tools") if name in known}
        steps.append({"id": "rest_end", "type": "end"})
        return Program.from_dict({"name": "rest", **same_fields, "inputs": inputs, "steps": steps, **more})

    def continued(self, program: Program, reads: Mapping[str, str] | None = None, **options: Any) -> Run | None:
        """Continue the run; None if the machine refuses that, and then nothing was written. Raises Breach."""
        run = options.pop("run", self.run.id)
        before = self.trial.store.inner.head(self.next(run))
        self.case.act(f"continue `{run}` by a program with {len(program.steps)} steps")
        try:
            return self.case.do(self.machine().continue_run(run, program, reads or {}, accept=ACCEPTED, **options))
        except StepwardError:
            is_same = self.trial.store.inner.head(self.next(run)) == before
            self.case.hold(is_same, Invariant.REFUSAL, "a continuation is refused, and was written all the same")
            return None


def _going_on(data: Data, is_declared: bool) -> None:
    """Let no call be the end of the program, so that a run can be interrupted after each. Tools may declare no
    arguments."""
    for step in data["steps"]:
        if step["type"] != "end" and step.pop("is_terminal", False):
            step["next_step"] = "after_all"
            step.pop("outcome", None)
    data["steps"] = [*data["steps"], {"id": "after_all", "type": "end"}]
    for tool in () if is_declared else data.get("tools", {}).values():
        tool.pop("args", None)


def _literal(value: Any) -> Any:
    """Return a value as a program writes it: a dollar sign begins no reference."""
    if isinstance(value, dict):
        return {name: _literal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _steps_of_a_write(trial: Trial) -> int | None:
    """Return the steps that a run has spent after its first write without sensitive values, None without one."""
    found, calls = trial.history(), trial.target.calls
    spent, state = [0], None
    for event in found.events:
        state = apply(found.plan, state, event) if state is not None else fold(found.plan, [event])
        spent.append(state.steps)
    for number, event in enumerate(found.events):
        if event.kind == "intent" and calls[event.body["step"]].writes and not is_sealed(event.body["args"]):
            return next((steps for steps in spent[number:] if steps > spent[number]), None)
    return None


def _within(target: Target, steps: int) -> Target:
    program = target.program
    most = steps if program.max_steps is None else min(steps, program.max_steps)
    return Target(program.model_copy(update={"max_steps": most}), target.policies)


class EffectOverTheBoundary(Attack):
    """A run is interrupted, and a program that continues it makes each of its writes again, with the same arguments: as
    inputs or as constants, with or without their declaration, one after the other or at once."""

    family = Family.REPLAY
    surface = "continuation"
    action = "the writes of an interrupted run, made again"
    invariant = Invariant.ONCE
    defence = "the policies of a continuation list the writes of the runs before, and the machine rejects them"
    enumerates = "each form in which a program can write the arguments"
    weight = 5
    needs = (WRITE,)

    def play(self, case: Case) -> Outcome:
        """Interrupt a run that has written, and repeat its writes in each form."""
        outcome = Outcome.BLOCKED
        for form in case.each("the arguments are written in form", FORMS):
            is_declared = form != "no declared arguments"
            target = variant(case.target, f"it goes on {is_declared}", lambda data: _going_on(data, is_declared))  # noqa: B023
            broken = Interrupted(case, writes=True, target=target)
            writes = case.needs(broken.written())
            run = broken.continued(broken.program(writes, form), grant={"steps": 50})
            repeated = {one.key for one in broken.desk.calls} & {one.key for one in writes}
            case.hold(not repeated, Invariant.ONCE, f"a continuation has repeated {sorted(repeated)[:1]}")
            outcome = Outcome.DETECTED if run is not None and run.broken else outcome
        return outcome


class OnceOverTheBoundary(Attack):
    """A tool may be called once, and was. A program that continues the run calls it with other arguments."""

    family = Family.TRANSITIONS
    surface = "continuation"
    action = "a call that may be made once, after a run that has made it"
    invariant = Invariant.GUARDRAIL
    defence = "the rules of a run go on in its continuation where they were"
    weight = 3
    needs = (ONCE,)

    def play(self, case: Case) -> Outcome:
        """Interrupt a run that has called such a tool, and call it again otherwise."""
        broken = Interrupted(case, writes=True)
        once = _called_once(broken.target)
        writes = case.needs([one for one in broken.written() if one.tool in once])
        others = [Written(one.tool, {name: _other(value) for name, value in one.args.items()}) for one in writes]
        broken.continued(broken.program(others), grant={"steps": 50})
        called = sorted({one.tool for one in broken.desk.calls} & once)
        case.hold(not called, Invariant.GUARDRAIL, f"tool {called[:1]} is called again by a continuation")
        return Outcome.BLOCKED


def _other(value: Any) -> Any:
    """Return another value of the same kind, where that is easy."""
    if isinstance(value, bool) or value is None:
        return value
    return f"{value}x" if isinstance(value, str) else value + 1 if isinstance(value, int) else value


class HeadGrownStale(Attack):
    """A run is continued with a head that it does not have: that of an earlier record, or one that was made up."""

    family = Family.REPLAY
    surface = "continuation"
    action = "a continuation that names a stale head"
    invariant = Invariant.IDENTITY
    defence = "the named head is compared with that of the run"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Name another head."""
        from hypothesis import strategies as st

        broken = Interrupted(case)
        heads = [entry.digest.hex() for entry in broken.trial.store.inner.read(broken.run.id)[:-1]]
        head = case.pick("the head is", st.sampled_from([*heads, NOBODY]))
        run = broken.continued(broken.program(), head=head, grant={"steps": 5})
        case.hold(run is None, Invariant.IDENTITY, "a run is continued from a head that it does not have")
        return Outcome.BLOCKED


class SecretReadOn(Attack):
    """A continuation reads a sensitive value into an input that is not sensitive."""

    family = Family.INJECTION
    surface = "continuation"
    action = "a continuation that reads a sensitive value as a plain one"
    invariant = Invariant.SECRECY
    defence = "an input that reads a sensitive value has to be sensitive"
    weight = 2
    needs = (SENSITIVE,)

    def play(self, case: Case) -> Outcome:
        """Read what is sealed at the end of the run."""
        from hypothesis import strategies as st

        broken = Interrupted(case)
        sealed = sorted(name for name, value in readable(broken.history).items() if is_sealed(value))
        name = case.pick("what is read", st.sampled_from(case.needs(sealed)))
        run = broken.continued(broken.program(inputs={"shown": {}}), {"shown": name}, grant={"steps": 5})
        case.hold(
            run is None, Invariant.SECRECY, f"a continuation reads `{name}`, which is sensitive, as a plain value"
        )
        return Outcome.BLOCKED


ODD_NAMES: Final = (
    "args.sum",
    "nothing_of_this_name",
    "",
    "$",
    "1 + 1",
    "rest_end",
    "a[0]",
    "x.error",
    "a..b",
    "$a.output.b",
)


class NothingReadOn(Attack):
    """A continuation reads what the run before does not have: odd names, expressions, arguments, its own steps."""

    family = Family.INJECTION
    surface = "continuation"
    action = "a continuation that reads what there is not"
    invariant = Invariant.DATA
    defence = "only variables and outputs that are defined at the end of the run are read"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Read each odd name."""
        broken = Interrupted(case)
        for name in case.each("the name that is read", ODD_NAMES):
            if name.removeprefix("$") in readable(broken.history):
                continue
            run = broken.continued(broken.program(inputs={"shown": {}}), {"shown": name}, grant={"steps": 5})
            case.hold(run is None, Invariant.DATA, f"a continuation reads {name!r}, which there is not")
        return Outcome.BLOCKED


class WithoutEnd(Attack):
    """Whoever continues a run continues it again and again, and each program asks for a budget that nobody granted."""

    family = Family.LOAD
    surface = "continuation"
    action = "a run that is continued again and again"
    invariant = Invariant.BOUNDS
    defence = "a chain has so many continuations, and spends what is left and what was granted"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Continue a run until the machine refuses, and count what the chain has spent."""
        from hypothesis import strategies as st

        broken = Interrupted(case)
        granted = case.pick("the steps that are granted each time", st.integers(1, 5))
        steps = [{"id": f"on_{number}", "type": "set", "set": {"n": number}} for number in range(20)]
        program = broken.program(steps=steps, max_steps=1_000)
        run, count, most = broken.run, 0, broken.target.program.max_steps or 0
        spent = run.steps
        while count <= MAX_CONTINUATIONS:
            following = broken.continued(program, run=run.id, grant={"steps": granted})
            if following is None:
                break
            again = broken.continued(program, run=run.id, grant={"steps": granted})
            case.hold(again is None, Invariant.IDENTITY, f"run `{run.id}` is continued twice")
            run, count, most = following, count + 1, most + granted
            spent += run.steps
            case.hold(spent <= most, Invariant.BOUNDS, f"a chain has spent {spent} steps, and {most} were allowed")
        case.hold(count <= MAX_CONTINUATIONS, Invariant.BOUNDS, f"a run is continued {count} times")
        return Outcome.BLOCKED


# -- forged continuations ----------------------------------------------------------------------------------------------


def _with(record: Data, **fields: Any) -> Data:
    body = record["body"]
    return record | {"body": body | {"continues": body["continues"] | fields}}


FORGERIES: Final[Mapping[str, Callable[[Data, Interrupted], Data]]] = {
    "another predecessor": lambda record, broken: _with(record, run=f"{broken.run.id}0"),
    "another head": lambda record, _: _with(record, head=NOBODY),
    "an earlier head": lambda record, broken: _with(
        record, head=broken.trial.store.inner.read(broken.run.id)[0].digest.hex()
    ),
    "another number": lambda record, _: _with(record, number=2),
    "what was not read": lambda record, _: _with(record, reads={"shown": "nothing"}),
    "no predecessor": lambda record, _: (
        record | {"body": {name: value for name, value in record["body"].items() if name != "continues"}}
    ),
    "a policy less": lambda record, _: record | {"body": record["body"] | {"policies": record["body"]["policies"][1:]}},
}
"""What the attacker writes into the first record of a continuation."""


class ForgedPredecessor(Attack):
    """The attacker writes into an unsigned journal that a run continues another one, or from another place, or under
    fewer policies than it did, or with a larger budget; and computes all digests again."""

    family = Family.TRANSITIONS
    surface = "store"
    action = "a forged link between two runs"
    invariant = Invariant.TAMPERING
    defence = "a verification derives values, policies and budgets of a continuation again from the runs before"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Continue a run, forge its continuation in each way, and verify it."""
        broken = Interrupted(case)
        take_signature(broken.trial)
        machine, store = broken.machine(key=None), broken.trial.store.inner
        rest, grant = broken.program(), {"steps": 5}
        following = case.do(machine.continue_run(broken.run.id, rest, grant=grant, accept=ACCEPTED))
        case.hold(not _faults(store, following.id), Invariant.REPLAY, "an honest continuation is called forged")
        entries = store.read(following.id)
        for name in case.each("the forgery", (*FORGERIES, "a larger budget")):
            case.act(f"write {name} into `{following.id}`")
            records = [json.loads(entry.record) for entry in entries]
            if name in FORGERIES:
                records[0] = FORGERIES[name](records[0], broken)
            else:
                records[0] = _richer(records[0], broken, following)
            _put(store, following, chained(records))
            case.hold(bool(_faults(store, following.id)), Invariant.TAMPERING, f"nobody notices {name}")
        return Outcome.DETECTED


def _richer(record: Data, broken: Interrupted, following: Run) -> Data:
    """Return a first record of a program with more steps than there were."""
    plan = Plan(following._plan.program.model_copy(update={"max_steps": 1_000}), following._plan.policies)
    broken.trial.store.inner.put_document(plan.digest, plan.document)
    return record | {"body": record["body"] | {"program": plan.digest}}


def _put(store: Any, run: Run, entries: Sequence[Any]) -> None:
    last = entries[-1]
    raw_store_of(store).put(run.id, entries, Head(run.id, last.seq, last.digest, None), run.status)


def _faults(store: Any, run: str) -> Sequence[Any]:
    return verify(store, run, replay=replayer(store, run)).faults
