"""Skipped transitions: what a rule requires ends without success, in each way in which a step can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.virtual_time import VirtualClock, virtual_time
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.models import ANY_NAME, ModelReply
from stepward.vm.machine.state import Limits
from stepward.vm.machine.tools import Suspend
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from stepward.sabotage.playing.case import Case
    from stepward.vm.machine.run import Run

Step = dict[str, Any]

LATE: Final = 60.0
"""The seconds that a late answer takes, more than each time-out and each deadline."""

SMALL: Final = Limits(output_bytes=2_000)
GOOD: Final = "it succeeds"
"""What the world does in a run in which the rule is met."""

HOMES: Final = ("the program", "a policy", "a policy that comes later")
"""What has the rules."""

STEP, TOOL = {"step": "check"}, {"tool": "look"}
BOTH: Final = (STEP, TOOL)


class FailedEnding(NamedTuple):
    """A way in which the step `check`, or the tool `look`, ends without success; then control goes to `then`.

    `world` is what the tool does then. Each of `selectors` names what has not succeeded. `given` is the input in that
    run, where it decides; `facts` are those of the tool. With `holds`, all that the selectors name succeeds for the
    input `good` and a good answer.
    """

    world: str
    steps: Sequence[Step]
    selectors: Sequence[Mapping[str, Any]] = BOTH
    given: Any = 1
    facts: Mapping[str, Any] = {"effect": "read", "returns": {"type": "integer"}}
    good: Any = 1
    holds: bool = True


def _check(**fields: Any) -> Step:
    return {"id": "check", "type": "tool", "tool": "look", **fields}


def _within(name: str, kind: str, **fields: Any) -> Step:
    return {"id": name, "type": kind, "on_error": "skip", **fields}


def _each(*steps: Step, **fields: Any) -> list[Step]:
    return [{"id": "each", "type": "for_each", "items": [1, 2], "as": "one", "steps": list(steps), **fields}]


def _parallel(*parts: Step) -> list[Step]:
    return [_within("both", "parallel", parallel_steps=list(parts))]


def _unless_got(then: str) -> list[Step]:
    """Return steps before one that reads `$got.output`, which is there for the input 1 alone."""
    which = {"id": "which", "type": "condition", "condition": "$given == 1", "then": "got", "otherwise": then}
    return [which, {"id": "got", "type": "tool", "tool": "get", "next_step": then}]


_FALLBACK: Final[Step] = {"timeout_seconds": 2, "on_timeout": "fallback", "fallback": 1}
_OTHER: Final[Step] = {"id": "other", "type": "tool", "tool": "get"}
_SUSPENDING: Final = {"effect": "none", "suspends": True}
_TOOLS: Final = {"sign": _SUSPENDING, "pay": {"effect": "write"}, "get": {"effect": "read"}}
_TYPED: Final = {"effect": "read", "args": {"n": {"type": "integer"}}}
_FORKED: Final[Step] = {"a": {"steps": [_check()]}, "b": {"steps": [_OTHER]}}
_ASKS: Final[Step] = {"id": "check", "type": "llm", "prompt": "Well?", "allowed_outputs": ["1"]}
_OF: Final = tuple({"step": name} for name in ("both", "each", "sub"))
_ROUND: Final[tuple[Step, ...]] = (
    {"id": "zero", "type": "set", "set": {"n": 0}, "next_step": "count"},
    {"id": "count", "type": "set", "set": {"n": "$n + 1"}, "next_step": "check"},
    _check(max_visits=1, next_step="again", error_step="again"),
    {"id": "again", "type": "condition", "condition": "$n < 2", "then": "count", "otherwise": "then"},
)

WAYS: Final[Mapping[str, FailedEnding]] = {
    "it fails, and is skipped": FailedEnding("it fails", [_check(on_error="skip")]),
    "it fails, and is caught": FailedEnding("it fails", [_check(catch=[{"errors": ["any"], "then": "then"}])]),
    "it fails, and has an error step": FailedEnding("it fails", [_check(error_step="then")]),
    "it is tried in vain": FailedEnding("it fails", [_check(on_error="retry", max_retries=2, error_step="then")]),
    "it is late, and has a fallback": FailedEnding("it is late", [_check(**_FALLBACK)]),
    "it is late, and is skipped": FailedEnding("it is late", [_check(timeout_seconds=2, on_error="skip")]),
    "it has another type": FailedEnding("it is odd", [_check(on_error="skip")]),
    "it is too large": FailedEnding("it is large", [_check(on_error="skip")], facts={"effect": "read"}),
    "it is in doubt, and then fails": FailedEnding(
        "it is late", [_check(on_error="skip", timeout_seconds=2)], facts={"effect": "write", "idempotent": False}
    ),
    "nobody answers in time": FailedEnding(
        "it waits", [_check(deadline_seconds=5, error_step="then")], facts=_SUSPENDING, holds=False
    ),
    "an argument is of another type": FailedEnding(
        GOOD, [_check(args={"n": "$given"}, on_error="skip")], given="x", facts=_TYPED
    ),
    "an argument is not there": FailedEnding(
        GOOD, [_check(args={"n": "$given.n"}, on_error="skip")], given={}, facts=_TYPED, good={"n": 1}
    ),
    "no policy allows it": FailedEnding(
        GOOD, [_check(tool="barred", on_error="skip")], [STEP, {"tool": "barred"}], holds=False
    ),
    "it is visited too often": FailedEnding("it fails", _ROUND),
    "nobody comes to it": FailedEnding(
        GOOD,
        [
            {"id": "which", "type": "condition", "condition": "$given == 1", "then": "check", "otherwise": "then"},
            _check(),
        ],
        given=2,
    ),
    "a sub-step falls back": FailedEnding("it is late", _parallel(_check(**_FALLBACK), _OTHER)),
    "a sub-step is skipped": FailedEnding("it fails", _parallel(_check(on_error="skip"), _OTHER)),
    "a sub-step fails": FailedEnding("it fails", _parallel(_check(), _OTHER), [*BOTH, _OF[0]]),
    "what a sub-step depends on fails": FailedEnding(
        "it fails", _parallel({"id": "first", "type": "tool", "tool": "look"}, _check(depends_on=["first"]))
    ),
    "a branch fails": FailedEnding("it fails", [_within("both", "parallel", branches=_FORKED)], [*BOTH, _OF[0]]),
    "a step of a branch is skipped": FailedEnding(
        "it fails",
        [_within("both", "parallel", branches={**_FORKED, "a": {"steps": [_check(on_error="skip")]}})],
    ),
    "an item fails": FailedEnding("it fails", _each(_check(), on_error="skip"), [*BOTH, _OF[1]]),
    "an item beside others fails": FailedEnding(
        "it fails", _each(_check(), on_error="skip", max_concurrency=2), [*BOTH, _OF[1]]
    ),
    "items are skipped": FailedEnding("it fails", _each(_check(), on_item_error="skip")),
    "items beside others are skipped": FailedEnding(
        "it fails", _each(_check(), on_item_error="skip", max_concurrency=2)
    ),
    "there are too many items": FailedEnding(
        GOOD, _each(_check(), on_error="skip", max_items=1), [*BOTH, _OF[1]], holds=False
    ),
    "there is no list of items": FailedEnding(
        GOOD,
        [*_unless_got("each"), *_each(_check(), on_error="skip", items="$got.output", max_items=3)],
        [*BOTH, _OF[1]],
        given=2,
        holds=False,
    ),
    "a called program fails": FailedEnding("it fails", [_within("sub", "call", program="p")], [TOOL, _OF[2]]),
    "an argument of a called program is not there": FailedEnding(
        GOOD,
        [*_unless_got("sub"), _within("sub", "call", program="q", args={"n": "$got.output"})],
        [TOOL, _OF[2]],
        given=2,
    ),
    "nothing can be computed": FailedEnding(
        GOOD, [_within("check", "compute", lisp="(+ data/n 1)", args={"n": "$given"})], [STEP], given="x"
    ),
    "another branch is taken": FailedEnding(
        GOOD,
        [{"id": "check", "type": "condition", "condition": "$given == 1", "then": "then", "otherwise": "then"}],
        [{"step": "check", "branch": "then"}],
        given=2,
    ),
    "no branch is taken": FailedEnding(
        GOOD,
        _each(
            {"id": "check", "type": "condition", "cases": [{"name": "c", "when": "$given == 1", "then": "fine"}]},
            {"id": "fine", "type": "set", "set": {"w": 1}},
            on_item_error="skip",
        ),
        [STEP, {"step": "check", "branch": "c"}],
        given=2,
    ),
    "it can't wait": FailedEnding(
        GOOD,
        _each({"id": "check", "type": "wait", "seconds": "$given"}, on_item_error="skip"),
        [STEP],
        given="x",
        holds=False,
    ),
    "no such reply is allowed": FailedEnding("it is odd", [{**_ASKS, "on_error": "skip"}], [STEP]),
    "a reply is late": FailedEnding("it is late", [{**_ASKS, **_FALLBACK, "fallback": "1"}], [STEP]),
    "a prompt would show a secret": FailedEnding(
        GOOD, [{**_ASKS, "prompt": "$hidden", "on_error": "skip"}], [STEP], holds=False
    ),
}
"""The ways. Everything but success is among them, so that one that is taken for a success is found."""


class _World(EveryTool):
    """The tools and the model: `look` does what the way says, and `pay` is what the rule protects."""

    names = ANY_NAME

    def __init__(self, does: str) -> None:
        self.does = does
        self.paid = 0
        self.parameters = {"model": "the world"}

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Answer a call of a tool."""
        del args, context
        self.paid += name == "pay"
        if name == "sign":
            return Suspend()
        return await self._looked() if name in ("look", "barred") else 1

    async def complete(self, request: Any) -> ModelReply:
        """Answer a model step."""
        del request
        return ModelReply("1" if await self._looked() == 1 else "2")

    async def _looked(self) -> Any:
        match self.does:
            case "it fails":
                raise RuntimeError("it broke")
            case "it is late":
                await asyncio.sleep(LATE)
            case "it is odd":
                return "odd"
            case "it is large":
                return "x" * SMALL.output_bytes
            case "it waits":
                return Suspend()
        return 1


class EndWithoutSuccess(Attack):
    """What a rule requires before a payment ends in each way without success: by a fallback, a catch, a skipped item,
    a passed deadline and so on. The rule belongs to the program, to a policy, or to a policy that comes later."""

    family = Family.TRANSITIONS
    surface = "ends of steps and calls"
    action = "each one that is no success, before what a rule protects"
    invariant = Invariant.GUARDRAIL
    defence = "only a success counts for `requires` and as the first of `followed_by`"
    weight = 8
    draws = True
    enumerates = "each way in which a step ends without success, and what has the rule"

    def play(self, case: Case) -> Outcome:
        """Check that nothing is paid and nothing is owed after each of them, and that a success counts."""
        turn = case.seed()
        pairs = [(name, selector) for name, way in WAYS.items() for selector in way.selectors]
        plays = [(name, one, HOMES[(turn + number) % len(HOMES)]) for number, (name, one) in enumerate(pairs)]
        with virtual_time(case) as clock:
            for name, selector, home in case.each("what is required ends so", plays):
                self._play(case, clock, name, selector, home)
        return Outcome.BLOCKED

    def _play(self, case: Case, clock: VirtualClock, name: str, selector: Mapping[str, Any], home: str) -> None:
        way = WAYS[name]
        for is_met in (False, True) if way.holds else (False,):
            world = _World(GOOD if is_met else way.world)
            case.log(f"{home} has the rule; " + ("what it requires succeeds" if is_met else name))
            run = _run(case, clock, world, _Setting(way, selector, home, way.good if is_met else way.given))
            outcome_words = f"{to_json(freeze(dict(selector)))} {'succeeded' if is_met else 'did not succeed'}"
            message = f"{outcome_words}, and the run ended {run.status} for {run.reason}: {run.error}"
            case.hold(world.paid == is_met, self.invariant, f"{message}; it paid {world.paid} times")
            case.hold((run.reason == "guardrail") is not is_met, self.invariant, message)
            is_owed = "owed" in [rule for rule, _ in run.broken]
            is_due = is_met and "branch" not in selector
            case.hold(
                is_owed == is_due,
                self.invariant,
                f"{outcome_words}, and its consequence is {'' if is_owed else 'not '}owed",
            )


class _Setting(NamedTuple):
    way: FailedEnding
    selector: Mapping[str, Any]
    home: str
    given: Any

    def rules(self) -> list[dict[str, Any]]:
        """Return a rule that requires a success, and one that wants something after it."""
        requires = {"name": "kept", "protects": {"tool": "pay"}, "requires": self.selector}
        follows = {"name": "owed", "followed_by": {"first": self.selector, "then": {"tool": "thank"}}, "ends": "any"}
        return [requires] if "branch" in self.selector else [follows, requires]

    def program(self) -> Program:
        """Return the program: the way, a step that waits for a later policy, and the payment."""
        waits = [{"id": "sign", "type": "tool", "tool": "sign", "next_step": "pay"}] * (self.home == HOMES[2])
        then: Step = {"id": "then", "type": "set", "set": {"v": 1}, "next_step": "sign" if waits else "pay"}
        steps = [dict(step) for step in self.way.steps]
        if steps[-1]["type"] != "condition":
            steps[-1] |= {"next_step": "then"}  # for some it is an arm, to which nothing leads by itself
        last = [then, *waits, {"id": "pay", "type": "tool", "tool": "pay"}]
        called = {"inputs": {}, "steps": [_check()]}
        inner = {"inputs": {"n": {"type": "integer"}}, "steps": [_check()]}
        data: dict[str, Any] = {
            "name": "ends",
            "language": 2,
            "inputs": {"given": {}, "hidden": {"type": "string", "sensitive": True}},
            "tools": {"look": dict(self.way.facts), **_TOOLS},
            "programs": {"p": {"name": "p", **called}, "q": {"name": "q", **inner}},
            "max_steps": 40,
            "steps": [*steps, *last],
        }
        used = {step.get("program") for step in self.way.steps} - {None}
        data["programs"] = {name: one for name, one in data["programs"].items() if name in used}
        data |= {"guardrails": self.rules()} if self.home == HOMES[0] else {}
        return Program.from_dict({name: value for name, value in data.items() if name != "programs" or value})

    def policies(self) -> Iterator[tuple[Policy, ...]]:
        """Yield the policies of the machine that starts the run, and those of the one that goes on with it."""
        allow = {"policy": "allowing", "allow": ["look", "get", "sign", "pay", "thank"]}
        own = Policy.from_dict({"policy": "p", "guardrails": self.rules()})
        first = Policy.from_dict(allow)
        yield (first,) if self.home != HOMES[1] else (first, own)
        yield (first,) if self.home == HOMES[0] else (first, own)


def _run(case: Case, clock: VirtualClock, world: _World, setting: _Setting) -> Run:
    """Run a program to its end. What waits for a deadline waits until then; somebody signs at once."""
    case.count()
    machines = [
        case.machine(world, world, case.store, policies, clock=clock, limits=SMALL) for policies in setting.policies()
    ]
    inputs = {"given": setting.given, "hidden": "4711471147"}
    run = case.do(machines[0].run(setting.program(), inputs, run_id=case.run_id()))
    while not run.is_over:
        if run.doubts:
            world.does = "it fails"
            run = case.do(machines[0].reconcile(run.id, "check", "not_done"))
        elif run.due is not None:
            clock.time += int(LATE * 1_000_000)
            run = case.do(machines[0].recover(run.id))[0]
        else:
            run = case.do(machines[1].resume(run.suspensions[0].token, 1))
    return run
