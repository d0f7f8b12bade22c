"""Rules by table: approvals that came to nothing, and starts beside one another in a body with rules of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import cache
from itertools import product
from typing import Any, Final, TypeVar

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.tools import ToolContext

Step = dict[str, Any]
T = TypeVar("T")

TOOLS: Final = {"approve": {"effect": "none"}, "look": {"effect": "read"}, "pay": {"effect": "write"}}
ENDINGS: Final = {
    "succeeded": ("declared",),
    "used its fallback": ("guardrail",),
    "was skipped": ("guardrail", "error"),
}
"""Why a run ends by what came of the approval. A sub-step that depends on one that was skipped fails."""

HANDLED: Final[Mapping[str, Step]] = {
    "succeeded": {},
    "used its fallback": {"timeout_seconds": 5, "on_timeout": "fallback", "fallback": True},
    "was skipped": {"on_error": "skip"},
}
"""What came of the approval, and how its step handles a failure."""

RULES: Final[Mapping[str, Step]] = {
    "fresh": {"protects": {"tool": "pay"}, "requires": {"tool": "approve"}},
    "once for all": {"protects": {"tool": "pay"}, "requires": {"tool": "approve"}, "fresh": False},
}
PAY: Final[Step] = {"id": "pay", "type": "tool", "tool": "pay"}
LOOK: Final[Step] = {"id": "look", "type": "tool", "tool": "look"}


def _parallel(**parts: Any) -> list[Step]:
    return [{"id": "all", "type": "parallel", **parts}]


def _items(guard: Step, at_once: int) -> list[Step]:
    more = {"max_concurrency": at_once} if at_once > 1 else {}
    return [{"id": "all", "type": "for_each", "items": [1, 2], "as": "one", "steps": [guard, PAY], **more}]


def _shapes(guard: Step) -> dict[str, tuple[list[Step], int]]:
    """Return the steps of each shape, with the approval in them, and the payments that are due if it succeeds."""
    behind = {**PAY, "depends_on": ["guard"]}
    between = [guard, {**LOOK, "depends_on": ["guard"]}, {**PAY, "depends_on": ["look"]}]
    return {
        "one after the other": ([guard, PAY], 1),
        "with a step between": ([guard, LOOK, PAY], 1),
        "in sub-steps with an order": (_parallel(parallel_steps=[guard, behind]), 1),
        "with a sub-step between": (_parallel(parallel_steps=between), 1),
        "before sub-steps": ([guard, *_parallel(parallel_steps=[LOOK, PAY])], 1),
        "in sub-steps before": ([*_parallel(parallel_steps=[guard, LOOK]), PAY], 1),
        "in branches with an order": (
            _parallel(branches={"one": {"steps": [guard]}, "two": {"steps": [PAY], "depends_on": ["one"]}}),
            1,
        ),
        "in a branch before": (
            [*_parallel(branches={"one": {"steps": [guard]}, "two": {"steps": [LOOK]}}), PAY],
            1,
        ),
        "in items": (_items(guard, 1), 2),
        "in items at once": (_items(guard, 2), 2),
    }


@cache
def _program(shape: str, outcome: str, rule: str) -> tuple[Program, int]:
    steps, due = _shapes({"id": "guard", "type": "tool", "tool": "approve", **HANDLED[outcome]})[shape]
    rules = [{"name": "approved", **RULES[rule]}]
    data = {"name": "approvals", "language": 2, "tools": TOOLS, "guardrails": rules, "steps": steps}
    return Program.from_dict(data), due if outcome == "succeeded" else 0


class _World(ManualClock, EveryTool):
    """Tools that count payments, and their clock. The approval is late and fails if `fails`."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.paid = 0

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the result of a call; raises TimeoutError for an approval that fails."""
        del seconds
        result = await awaited
        if self.fails:
            raise TimeoutError
        return result

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Approve, look or pay."""
        del args
        if name == "approve" and self.fails and context.timeout is None:
            raise RuntimeError("nobody answers")
        self.paid += name == "pay"
        return 1


class ApprovalCameToNothing(Attack):
    """What a rule requires before a payment is performed and fails: its step uses a fallback, or is skipped, and the
    run goes on. The payment is behind it in each way in which a step can be behind another."""

    family = Family.TRANSITIONS
    surface = "guardrail"
    action = "an approval that used its fallback or was skipped, in each construct"
    invariant = Invariant.GUARDRAIL
    defence = "a step that used its fallback or was skipped did not succeed"
    enumerates = "constructs, outcomes of the approval, and kinds of rules"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Run each program of the table, and count payments."""
        shapes = tuple(_shapes({}))
        for shape, outcome, rule in case.each("the table", tuple(product(shapes, HANDLED, RULES))):
            program, due = _program(shape, outcome, rule)
            world = _World(fails=outcome != "succeeded")
            machine = case.machine(world, None, MemoryJournal(), clock=world)
            case.act(f"pay behind an approval that {outcome}, {shape}, under a rule that asks {rule}")
            try:
                run = case.do(machine.run(program, {}, run_id=case.run_id()))
            except StepwardError as error:
                case.hold(False, Invariant.KEPT, f"such a program is refused: {error}")
                continue
            message = f"{world.paid} payments are made, and {due} are allowed: the run is {run.status}"
            case.hold(world.paid == due, self.invariant, message)
            case.hold(run.reason in ENDINGS[outcome], Invariant.ENDINGS, f"a run ends by `{run.reason}`: {run.error}")
        return Outcome.BLOCKED


OWNERS: Final = ("program", "for_each", "branch", "call")
BESIDE: Final = ("branches", "items at once", "sub-steps", "sub-steps in turn", "branches in branches")
COUNTED: Final[Mapping[str, tuple[Step, int]]] = {
    "at most once": ({"at_most_once": {"tool": "pay"}}, 1),
    "one of both": ({"exclusive": [{"tool": "pay"}, {"tool": "approve"}]}, 0),
}
"""Rules of a body, and the payments that are allowed there: for the second one the other call comes first."""


def _beside(kind: str, first: Step, second: Step) -> list[Step]:
    """Return steps that start two calls beside one another, the first one in the order of the program first."""
    match kind:
        case "branches":
            return [_all(branches={"one": {"steps": [first]}, "two": {"steps": [second]}})]
        case "items at once":
            chosen = [
                {"id": "which", "type": "condition", "condition": "$number == 1", "then": "one", "otherwise": "two"},
                {**first, "id": "one", "is_terminal": True},
                {**second, "id": "two", "is_terminal": True},
            ]
            items = {"type": "for_each", "items": [1, 2], "as": "number", "max_concurrency": 2}
            return [{"id": "all", **items, "steps": chosen}]
        case "sub-steps":
            return [_all(parallel_steps=[first, second])]
        case "sub-steps in turn":
            return [_all(parallel_steps=[first, {**second, "depends_on": [first["id"]]}])]
    inner = {"id": "in_all", "type": "parallel", "branches": {"three": {"steps": [second]}, "four": {"steps": [LOOK]}}}
    return [_all(branches={"one": {"steps": [first]}, "two": {"steps": [inner]}})]


def _all(**parts: Any) -> Step:
    return {"id": "all", "type": "parallel", **parts}


@cache
def _owned(owner: str, kind: str, rule: str) -> Program:
    counted = COUNTED[rule][0]
    first = {"id": "first", "type": "tool", "tool": "pay" if rule == "at most once" else "approve"}
    steps = _beside(kind, first, {"id": "second", "type": "tool", "tool": "pay"})
    rules = [{"name": "counted", **counted}]
    data: dict[str, Any] = {"name": "owned", "language": 2, "tools": TOOLS}
    match owner:
        case "program":
            data |= {"guardrails": rules, "steps": steps}
        case "for_each":
            each = {"id": "each", "type": "for_each", "items": [7], "as": "one", "guardrails": rules, "steps": steps}
            data["steps"] = [each]
        case "branch":
            parts = {
                "with_rules": {"guardrails": rules, "steps": steps},
                "other": {"steps": [{**LOOK, "id": "look_o"}]},
            }
            data["steps"] = [{"id": "outer", "type": "parallel", "branches": parts}]
        case _:
            data["programs"] = {"part": {"inputs": {}, "tools": TOOLS, "guardrails": rules, "steps": steps}}
            data["steps"] = [{"id": "go", "type": "call", "program": "part"}]
    return Program.from_dict(data)


class StartsInABody(Attack):
    """A body has a rule of its own that counts starts: the program, an item, a branch or a called program. In it two
    calls start beside one another, where one is allowed."""

    family = Family.TRANSITIONS
    surface = "guardrail of a body"
    action = "two starts beside one another, where the body allows one"
    invariant = Invariant.GUARDRAIL
    defence = "a rule of a body counts the starts in all that runs at once in it"
    enumerates = "bodies with rules, ways to start beside one another, and rules"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Run each program of the table, and count payments."""
        for owner, kind, rule in case.each("the table", tuple(product(OWNERS, BESIDE, COUNTED))):
            world, due = _World(fails=False), COUNTED[rule][1]
            machine = case.machine(world, None, MemoryJournal(), clock=world)
            case.act(f"start two calls as {kind} in a {owner} with the rule `{rule}`")
            run = case.do(machine.run(_owned(owner, kind, rule), {}, run_id=case.run_id()))
            message = f"{world.paid} payments are made, and {due} are allowed: the run is {run.status}"
            case.hold(world.paid <= due, self.invariant, message)
            case.hold(run.status == "FAILED", Invariant.ENDINGS, f"a run that a rule stops is {run.status}")
        return Outcome.BLOCKED
