"""The state of a run: immutable, and complete for the core."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.vm.errors import UndefinedReferenceError
from stepward.vm.expressions.fields import part, written
from stepward.vm.journal.canonical import Sealed, Secret, canonical, is_sealed, opened, portable
from stepward.vm.journal.records import NO_DIGEST
from stepward.vm.journal.store import packed
from stepward.vm.machine.events import RUNNING
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.plan import Names, Plan, StepPlan
from stepward.vm.machine.slots import UNDEFINED, WIDTH, Slots, get

READY: Final = "ready"
OPEN: Final = "open"
AWAITED: Final = "suspended"
HELD: Final = (AWAITED, "doubt")
SETTLED: Final = ("success", "fallback", "skipped", "failed")


class Limits(NamedTuple):
    """The machine's limits on every run; sizes in bytes of canonical JSON.

    `state_bytes` bounds what all steps together left behind at their last visits, to the byte: an output, or the object
    of the values that a step assigned, of the outputs of sub-steps or branches, or the list of those of items. A
    sensitive value counts as its reference in the journal, and has to fit itself. It also bounds the first record of a
    run, which has the inputs. Branches that run at once are held to it one by one, and what they leave together where
    they join.
    """

    output_bytes: int = 1 << 20
    state_bytes: int = 16 << 20
    steps: int = 1_000_000


class CallState(NamedTuple):
    """The state of one call of the present step.

    `phase` is READY, OPEN (its intent is in the journal, its outcome is not), one of HELD or one of SETTLED; `attempt`
    counts attempts of the visit, `base` those of earlier rounds of a retried parallel step; `performance` counts
    performances, and `repeats` says that the last one did not happen and is to be repeated; `token` is the digest of
    the resume token; `is_unknown` says that the effect of the last attempt may have happened, and that it is to be
    repeated; `name` is that of the error; `due` is the earliest time of the next attempt, or the deadline of
    a suspended one, in microseconds, 0 for none.
    """

    phase: str = READY
    attempt: int = 0
    base: int = 0
    performance: int = 0
    value: Any = None
    error: str = ""
    trace: bytes = NO_DIGEST
    token: str = ""
    repeats: bool = False
    is_unknown: bool = False
    name: str = ""
    due: int = 0

    def changed(self, changes: Mapping[str, Any]) -> CallState:
        """Return the call with other parts, by name: `_replace` for who has a dict of them."""
        parts = list(self[:])
        for name, value in changes.items():
            parts[_PLACES_OF_CALL[name]] = value
        return packed(CallState, parts)


def _changed_call(call: CallState, /, **changes: Any) -> CallState:
    return call.changed(changes)


_PLACES_OF_CALL: Final = {name: place for place, name in enumerate(CallState._fields)}
CallState._replace = _changed_call  # type: ignore[method-assign, assignment]  # that of a NamedTuple asks for each part

FRESH: Final = CallState()

Values = tuple[tuple[int, Any], ...]
"""Slots with their values."""


class Failure(NamedTuple):
    """The error of an item, and its name."""

    error: str
    name: str


class Each(NamedTuple):
    """A for_each step that has started. `at` is its position; `round` counts its attempts, `item` is the next item.

    `before` are the values that the carried variables had outside, `first` those with which the first item starts, and
    `carried` those of the next item. `outputs` and `errors` are by item; `failed` is the error of the item with which
    the step failed. `trace` is the digest of the frames that have ended.
    """

    at: int
    visit: int
    round: int = 1
    items: tuple[Any, ...] = ()
    item: int = 0
    before: Values = ()
    first: Values = ()
    carried: Values = ()
    outputs: Slots = ()
    errors: Slots = ()
    failed: Failure | None = None
    trace: bytes = NO_DIGEST


class Frame(NamedTuple):
    """One performance of a body that goes on, and what the state outside of it had: its step, idle steps and trace.

    `name` names it in records: a member for each frame from the outside in, of step id, visit, round and item.
    """

    each: Each
    idle: int
    trace: bytes
    name: FrameName


class Branch(NamedTuple):
    """A branch of a step that has started. `state` is its own state from its start to its end.

    Of one that has ended, `output` is what it came to, `failure` its error, and `trace` its trace hash; `monitors` are
    its memories of rules at that time.
    """

    state: State | None = None
    is_done: bool = False
    output: Any = UNDEFINED
    failure: Failure | None = None
    trace: bytes = NO_DIGEST
    monitors: tuple[Any, ...] = ()


_NO_NAMES: Final[Mapping[FrameName, int]] = {}


class Fork(NamedTuple):
    """The branches of a step that has started: its position, its visit, and the branches in the order of the layout.

    The items of a for_each step that run at once are such branches, in the order of the list; `items` are the items.
    `round` counts the attempts of the step, and `stops` says that no item starts after one has failed.

    `running` are the numbers of the branches that go on, and `names` has them by the names of their frames; `begun`
    counts those that have started, and `has_failed` says that one has failed: what comes next is found by these, so
    that it takes no longer with more items.
    """

    at: int
    visit: int
    branches: tuple[Branch, ...]
    items: tuple[Any, ...] | None = None
    round: int = 1
    stops: bool = False
    running: tuple[int, ...] = ()
    names: Mapping[FrameName, int] = _NO_NAMES
    begun: int = 0
    has_failed: bool = False

    @property
    def has_stopped(self) -> bool:
        """Whether an item has failed, so that no other starts."""
        return self.stops and self.has_failed

    @property
    def has_succeeded(self) -> bool:
        """Whether all branches have ended, and none has failed."""
        return not self.running and not self.has_failed and self.begun == len(self.branches)

    def changed(self, number: int, branch: Branch) -> Fork:
        """Return the fork in which a branch has become `branch`: it starts, goes on or ends."""
        before = self.branches[number]
        at, visit, branches, items, turn, stops, running, names, begun, has_failed = self
        many = list(branches)
        many[number] = branch
        if before.state is None or branch.state is None:  # most go on
            if branch.state is None:
                names = {name: one for name, one in names.items() if one != number}
            else:
                names = {**names, branch.state.frame: number}
            running = tuple(sorted(names.values()))
            begun += before.state is None and not before.is_done
            has_failed = has_failed or branch.failure is not None
        return packed(Fork, (at, visit, tuple(many), items, turn, stops, running, names, begun, has_failed))


class _Parts(NamedTuple):
    """The parts of a state: last those that belong to the run as a whole, not to a branch of it."""

    # These stay when a step is left, which `leave` relies on.
    round: int = 1
    output: Any = None
    error: str = ""
    each: Each | None = None
    frames: tuple[Frame, ...] = ()
    result: Branch | None = None
    moved: str = ""
    due: int = 0
    is_once_sized: bool = False
    # These change.
    reason: str = ""
    at: int = 0
    slots: Slots = ()
    calls: tuple[CallState, ...] | None = None
    idle: int = 0
    size: int = 0
    trace: bytes = NO_DIGEST
    # Of these, every event in a branch changes those of the state around it, too.
    fork: Fork | None = None
    status: str = RUNNING
    monitors: tuple[Any, ...] = ()
    # These belong to the run as a whole.
    steps: int = 0
    tokens: int = 0
    cost: int | Decimal = 0
    refusals: int = 0
    is_cancelled: bool = False
    is_erased: bool = False
    limits: Limits = Limits()
    by: str = ""
    governed: int = 0
    caller: str = ""
    broken: tuple[tuple[str, str], ...] = ()
    ends_by: int = 0


class State(_Parts):
    """A run after some number of events.

    `at` is the position of the step to perform; `calls` are the calls of a step that has begun; `steps` and `tokens`
    are spent budget; `idle` counts steps that changed nothing; `size` is that of all outputs in bytes; `round` counts
    the attempts of a parallel step; `by` names the person who started the run, if known; `governed` counts the terms
    that it came under later; `caller` names the caller of a gateway that may not settle calls of the run.

    In a body, `frames` are the open frames, outermost first. `each` is the for_each step between whose items the run
    is. `broken` are the rules of bodies that frames have broken, with the reasons. `fork` are the branches that run:
    each has a state of its own, and `result` is what it came to when it has ended.
    `moved` is the digest of the version to which the run moves, empty for none. `due` is the time at which the wait
    that goes on is over, and `ends_by` that at which the time of the run is over, in microseconds since the epoch; 0
    without one. `is_once_sized`: `size` counts as older machines did, the characters of whole records, and no attempt
    is paid for in a delay, which a replay asks about the records of such a machine.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # of the many parts, most changes concern few; that of a NamedTuple asks about each by name

        def _replace(self, **changes: Any) -> State:
            return self.changed(changes)

    def changed(self, changes: Mapping[str, Any]) -> State:
        """Return the state with other parts, by name: `_replace` for who has a dict of them."""
        parts = list(self[:])  # a plain tuple, which is copied at once
        for name, value in changes.items():
            parts[_PLACES[name]] = value
        return packed(State, parts)

    @property
    def frame(self) -> FrameName:
        """The name of the innermost open frame; empty outside of all bodies."""
        return self.frames[-1].name if self.frames else ()

    @property
    def is_leaving(self) -> bool:
        """Whether the run moves to another version, and the step on which it waited has ended."""
        return bool(self.moved) and self.calls is None and not self.due and self.status == RUNNING

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status not in ("RUNNING", "SUSPENDED", "IN_DOUBT")


_PLACES: Final = {name: place for place, name in enumerate(State._fields)}

STAYING: Final = 9
"""The number of parts in front that stay when a step is left."""

assert State._fields[STAYING] == "reason", "`leave` writes the parts from it to `steps`"

OUTER_PARTS: Final = State._fields.index("fork")
"""The number of parts that stay in the state around a branch when something happens in that."""


def before(plan: Plan) -> State:
    """Return the state of a run that has not started."""
    return State(slots=plan.slots)


class Reader:
    """Reads references in one state; `touched` says whether it has read a sensitive value.

    `args` is the value of `$args` in the conditions of guardrails, UNDEFINED if there are no arguments. Elsewhere it is
    None, and `$args` is an ordinary variable.
    """

    __slots__ = ("args", "plan", "slots", "touched")

    def __init__(self, plan: Plan, slots: Slots, args: Any = None) -> None:
        self.plan = plan
        self.slots = slots
        self.args = args
        self.touched = False

    def raw(self, names: Names) -> Any:
        """Return the value of a reference as the state holds it; raises UndefinedReferenceError if there is none."""
        if self.args is not None and names[0] == "args":
            value, fields = self.args, names[1:]
        else:
            located = self.plan.locate(names)
            if located is None:
                raise UndefinedReferenceError(written(names))
            value, fields = get(self.slots, located[0]), located[1]
        is_secret = False
        for field in fields:
            if type(value) is Sealed or type(value) is Secret:
                is_secret = True
                value = opened(value)
            value = part(value, field, UNDEFINED)
        if value is UNDEFINED:
            raise UndefinedReferenceError(written(names))
        return Secret(value) if is_secret else value

    def __call__(self, names: Names) -> Any:
        """Return the value of a reference with its sensitive parts opened; raises UndefinedReferenceError."""
        value = self.raw(names)
        if self.plan.has_sensitive and is_sealed(value):
            self.touched = True
            return opened(value)
        return value


OWN_PARTS: Final = State._fields.index("steps")
"""The number of parts of a state that a branch has for itself; those behind them belong to the run as a whole."""


def visits_of(state: State, step: StepPlan) -> int:
    """Return the number of visits of a step."""
    visits: int = state.slots[step.visits // WIDTH][step.visits % WIDTH][0]  # as `get`, which would be a second call
    return visits


def owner_of(plan: Plan, fork: Fork, number: int) -> int:
    """Return the position of the step that owns the body of a branch, or of an item that runs beside others."""
    return fork.at if fork.items is not None else plan.forks[fork.at].branches[number]


def snapshot(plan: Plan, state: State) -> bytes:
    """Return the canonical bytes of a state: equal for equal states, on any machine."""
    return canonical(portable(_plain(plan, state))).encode()


def _plain(plan: Plan, state: State) -> dict[str, Any]:
    values = {name: get(state.slots, slot) for slot, name in plan.names_of_slots.items()}
    counters = {
        step.id: list(get(state.slots, step.visits))
        for step in plan.steps
        if not step.is_stage and visits_of(state, step)
    }
    data = state._asdict()
    del data["slots"], data["is_once_sized"]
    for name in ("moved", "due", "ends_by"):  # the snapshots of other runs stay what they were
        if not data[name]:
            del data[name]
    frames, each, broken = data.pop("frames"), data.pop("each"), data.pop("broken")
    fork, _ = data.pop("fork"), data.pop("result")
    if fork is not None:
        branches = [_plain_branch(plan, state, fork, number) for number in range(len(fork.branches))]
        data["fork"] = [fork.at, fork.visit, branches]
        data["fork"] += [] if fork.items is None else [fork.items]
        data["fork"] += [fork.round] if fork.round > 1 else []
    if frames or each is not None or broken:  # the snapshots of programs without bodies stay what they were
        data["frames"] = [[_plain_each(plan, one.each), one.idle, one.trace.hex(), one.name] for one in frames]
        data |= {"each": each and _plain_each(plan, each), "broken": broken}
    data |= {
        "calls": None if state.calls is None else [_plain_call(call) for call in state.calls],
        "monitors": _listed(state.monitors),
        "trace": state.trace.hex(),
        "limits": list(state.limits),
        "counters": counters,
        "values": {name: value for name, value in values.items() if value is not UNDEFINED},
    }
    return data


def _plain_each(plan: Plan, each: Each) -> list[Any]:
    names = plan.names_of_slots  # plans of one program may number their slots in another order
    maps = ({names[slot]: _shown(value) for slot, value in many} for many in (each.before, each.first, each.carried))
    rooms = ([[_shown(value) for value in chunk] for chunk in room] for room in (each.outputs, each.errors))
    return [each.at, each.visit, each.round, each.items, each.item, *maps, *rooms, each.failed, each.trace.hex()]


def _plain_branch(plan: Plan, state: State, fork: Fork, number: int) -> list[Any]:
    """Return a branch without what belongs to the run: there it has a copy, as old as the last event of the branch."""
    branch, owner = fork.branches[number], owner_of(plan, fork, number)
    own: dict[str, Any] | None = None
    if branch.state is not None:
        shared = plan.watch.shared(branch.state.monitors, state.monitors, owner)
        found = _plain(plan, branch.state._replace(monitors=shared))
        own = {name: value for name, value in found.items() if name not in State._fields[OWN_PARTS:]}
    monitors = _listed(plan.watch.shared(branch.monitors, state.monitors, owner) if branch.monitors else ())
    return [own, branch.is_done, _shown(branch.output), branch.failure, branch.trace.hex(), monitors]


def _shown(value: Any) -> Any:
    return [] if value is UNDEFINED else [value]


def _plain_call(call: CallState) -> list[Any]:
    plain: list[Any] = list(call._replace(trace=call.trace.hex()))  # type: ignore[arg-type]
    return plain if call.name or call.due else plain[:-2]  # as before errors had names


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
