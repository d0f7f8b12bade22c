"""The answers of the world to a program. They depend only on a seed and the question, so that two machines get the
same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.spellings import QUOTED, SPELLINGS
from stepward.sabotage.drawn.values import beside, fitting, of_size
from stepward.sabotage.reference import Answer, Lost, Raised, Replied, Returned, TimedOut, Waits
from stepward.sabotage.reference.echoes import LEAST, says
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.values import ValueRefused, freeze

KINDS: Final = ("good", "raise", "late", "lost", "odd", "wait")
WEIGHTS: Final = (
    (8, 1, 1, 1, 1, 4),
    (30, 1, 1, 0, 0, 9),
    (3, 2, 2, 2, 2, 2),
    (4, 4, 0, 0, 1, 3),
    (4, 0, 4, 1, 0, 1),
    (6, 0, 0, 3, 2, 1),
    (6, 0, 0, 0, 6, 3),
    (40, 1, 0, 0, 1, 20),
    (20, 6, 1, 1, 1, 5),
    (5, 1, 9, 0, 0, 2),
)
LATE: Final = (*WEIGHTS[:2], (4, 1, 9, 0, 0, 2), (6, 1, 9, 0, 1, 3), (2, 0, 9, 0, 0, 1), (6, 4, 6, 0, 1, 3))
"""Kinds of answers that are often late."""

RAISING: Final = ((4, 8, 0, 0, 1, 3), (2, 9, 3, 0, 1, 1), (6, 6, 1, 1, 1, 1))
"""Kinds of answers that are often errors."""

LOST: Final = ((6, 0, 0, 4, 0, 1), (6, 0, 0, 4, 0, 1), (12, 1, 0, 4, 1, 4), *WEIGHTS[:2])
"""Kinds of answers that are often lost, so that somebody has to settle writes."""

PADDINGS: Final = ("{}", "{}", "{}", " {}\n", "\t{}", "\u00a0{}\u2003")
"""What stands around a reply of a closed set: white space is no part of it."""

ODD: Final[tuple[Any, ...]] = (
    None,
    5,
    -1.5,
    True,
    "zz",
    " yes ",
    "YES",
    "yes.",
    ["yes"],
    [],
    [1, "a"],
    {},
    {"a": 1},
    float("nan"),
    object(),
    "\ud800",
    "[1]",
    "1e3",
    "NaN",
    10**999,
    10**1000,
    Decimal("1e999"),
    Decimal("1e1000"),
    Decimal("1e-999"),
    Decimal("1e-1000"),
    Decimal("0.10"),
    "1e999",
    "1e1000",
)
TOKENS: Final[tuple[Any, ...]] = (0, 1, 2, 3, 4, 4, 7, -1, None)
"""Token counts of replies. No tokens are charged for values below zero or None."""

COSTS: Final = ("0", "0.1", "0.25", "3", "-1")
"""Costs of replies. Nothing is charged for one below zero."""

RAISED: Final[tuple[tuple[str, ...], ...]] = (
    ("ValueError",),
    ("Declined",),
    ("Busy",),
    ("VeryBusy", "Busy"),
    ("Lost", "Declined", "Busy"),
)
"""The names of what tools and models raise: of a class, and of the classes above it."""

RUN_SIGNS: Final = ("", "", "", ".7", " \u00fc", '"\\')
"""What ends the ids of runs: a token divides at a full stop, and a key and a record write the id as JSON."""

PEOPLE: Final = ("", "ann", "bob")

SHARE_OF_CALLERS: Final = 0.3
"""The share of runs that a caller of a gateway starts."""

DEATHS: Final = (0.0, 0.0, 0.3, 0.7)
"""The share of the requests whose process may die."""


class Manner(NamedTuple):
    """The manner of answers: the shares of values just outside a type, of values at the size limit, and of echoes.

    `weights` are those of the kinds of answers, of which a case has one.
    """

    beside: float = 0.1
    at_limit: float = 0.0
    echoes: float = 0.3
    weights: tuple[tuple[int, ...], ...] = WEIGHTS


class DrawnWorld:
    """The answers of a seed, and its actions on a run that waits.

    `secrets` are the sensitive values that outputs, errors and requests repeat; `said` has each spelling that was used.
    """

    def __init__(self, plan: Plan, seed: str, manner: Manner, secrets: tuple[str, ...], most_bytes: int) -> None:
        self.seed = seed
        self.manner = manner
        self.secrets = secrets
        self.said: set[str] = set()
        self.calls: dict[str, CallPlan] = {call.id: call for step in plan.steps for call in step.calls}
        self.top = {step.id for step in plan.program.layout.steps}
        self.weights = self.chance("weights").choice(manner.weights)
        self.has_branches = plan.program.layout.has_siblings
        self.cancelled_at = 0 if self.has_branches else self.chance("cancel").choice([0] * 9 + [1, 2, 3])
        """The number of the call during which the run is cancelled; 0 for never."""
        self.plan = plan
        self.lost: set[tuple[Any, ...]] = set()
        """The attempts whose outcomes died with a process."""
        self.deaths = 0 if self.cancelled_at or self._has_waves(plan) else self.chance("deaths").choice(DEATHS)
        self._most_bytes = most_bytes

    def _has_waves(self, plan: Plan) -> bool:
        """Whether a step is parallel: a death there makes other waves, which the reference can't know."""
        return any(step.is_parallel for step in plan.steps)

    def is_ordered(self, step: str) -> bool:
        """Return whether a call is a sub-step of a step with `depends_on`, or may run beside other branches."""
        if self.has_branches:
            return True
        return any(one.order is not None and any(call.id == step for call in one.calls) for one in self.plan.steps)

    def rank(self, *place: Any) -> float:
        """Return the rank of an attempt among those under way: the one with the lowest is answered first."""
        return self.chance("rank", *place).random()

    def chance(self, *names: Any) -> Random:
        """Return the random source of one decision."""
        return Random(" ".join(map(str, (self.seed, *names))))

    def cancels(self, step: str, number: int) -> bool:
        """Return whether the run is cancelled during a call: only of a writing tool or a model, whose outcome the
        machine commits at once.

        Sub-steps are left out, because it depends on timing which siblings have started.
        """
        call = self.calls[step]
        return number == self.cancelled_at and (call.writes or call.is_model) and step in self.top

    def input(self, name: str, spec: TypeSpec | None) -> Any:
        """Return the value of an input, mostly of its type."""
        chance = self.chance("input", name)
        share = chance.random()
        if share < 0.02:
            return chance.choice(ODD)
        value = beside(spec, chance) if share < 0.02 + self.manner.beside * 0.3 else fitting(spec, chance)
        if spec is None and chance.random() < self.manner.at_limit:
            return of_size(self._most_bytes, chance)
        return value

    def value(self, step: str, chance: Random) -> Any:
        """Return an output or a reply, mostly an accepted one."""
        call = self.calls[step]
        if call.allowed:
            text = str(chance.choice(call.allowed))
            return chance.choice(PADDINGS).format(text)
        if chance.random() < self.manner.at_limit:
            value = self._sized(call, chance)
        else:
            value = (beside if chance.random() < self.manner.beside else fitting)(call.returns, chance)
        value = self.echo(step, value)
        is_read = not call.is_model or isinstance(value, str) or chance.random() < 0.3
        return value if is_read else json.dumps(value, default=float)

    def _sized(self, call: CallPlan, chance: Random) -> Any:
        found = of_size(self._most_bytes, chance)
        return found if _is_of(found, call.returns) else fitting(call.returns, chance)

    def echo(self, step: str, value: Any) -> Any:
        """Return an output in which some part may repeat a sensitive value in some spelling."""
        chance = self.chance("echo", step, repr(value))
        if chance.random() >= self.manner.echoes:
            return value
        spelling = self.spelled(chance)
        found = _with(value, spelling, chance)
        return found if _is_of(found, self.calls[step].returns) else value

    def spelled(self, chance: Random) -> str:
        """Return a sensitive value in some spelling."""
        secret = chance.choice(self.secrets)
        names = [name for name in SPELLINGS if len(secret) >= LEAST or name not in QUOTED]
        spelling = SPELLINGS[chance.choice(names)](secret)
        is_sought = len(secret) >= LEAST and len(spelling) > len(secret)
        if is_sought and not spelling.isdigit() and says(spelling, secret):
            self.said.add(spelling)
        return spelling

    def answer(self, step: str, visit: int, attempt: int, *frame: Any) -> Answer:
        """Return the answer to an attempt; `frame` are the items in whose bodies it is made."""
        call, chance = self.calls[step], self.chance(step, visit, attempt, *frame)
        if (step, visit, attempt, *frame) in self.lost:
            return Lost()
        kind = chance.choices(KINDS, self.weights)[0]
        cannot_wait = kind == "wait" and not call.may_suspend and chance.random() < 0.9
        if (kind == "late" and call.timeout is None) or cannot_wait:
            kind = "good"
        if kind == "raise":
            return Raised(
                why=chance.choice(("card-a", "card-b")), names=self.chance("names", step, visit, attempt).choice(RAISED)
            )
        if kind in ("late", "lost"):
            return TimedOut() if kind == "late" else Lost()
        if kind == "wait" and not call.is_model:
            return Waits({"for": self.words(step, visit, attempt, *frame)})
        value = chance.choice((*ODD, beside(call.returns, chance))) if kind == "odd" else self.value(step, chance)
        if not call.is_model:
            return Returned(value)
        return Replied(value, chance.choice(TOKENS), self._cost(step, visit, attempt, *frame))

    def _cost(self, *place: Any) -> Decimal:
        return Decimal(self.chance("cost", *place).choice(COSTS))

    def words(self, *place: Any) -> str:
        """Return the text of an error or a request of an attempt, which may quote a sensitive value."""
        chance = self.chance("words", *place)
        return self.spelled(chance) if chance.random() < self.manner.echoes else "it broke"

    def envelope(self) -> tuple[str, bool] | None:
        """Return the caller of a gateway who starts the run, and whether it may settle its own calls; mostly None."""
        chance = self.chance("envelope")
        return (chance.choice(PEOPLE[1:]), chance.random() < 0.3) if chance.random() < SHARE_OF_CALLERS else None

    def run_id(self, name: str) -> str:
        """Return an id for the run: a name, in half of the runs with signs that tokens, keys or JSON treat apart."""
        return name + self.chance("run id").choice(RUN_SIGNS)

    def starter(self) -> str:
        """Return the person who starts the run, or an empty text for an unnamed one: two people need a name."""
        person = self.chance("by").choice(PEOPLE[:2])
        return PEOPLE[1] if self.plan.four_eyes else person


def _is_of(value: Any, spec: TypeSpec | None) -> bool:
    try:
        return fits(freeze(value), spec)
    except ValueRefused:
        return False


def _with(value: Any, spelling: str, chance: Random) -> Any:
    if isinstance(value, str):
        return (
            chance.choice([spelling, {"a": spelling}, {spelling: 1, "b": 2}, ["x", [spelling]]])
            if chance.random() < 0.5
            else spelling
        )
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        return value | ({name: _with(value[name], spelling, chance)} if chance.random() < 0.8 else {spelling: 5})
    if isinstance(value, list):
        return [*value, spelling]
    return int(spelling) if spelling.isascii() and spelling.isdigit() and type(value) is int else value


def inputs_of(plan: Plan, world: DrawnWorld) -> Mapping[str, Any]:
    """Return the inputs of a run. An input with a default is given half the time."""
    return {
        name: world.input(name, spec)
        for name, spec in plan.input_types.items()
        if spec is None or not spec.has_default or world.chance("given", name).random() < 0.5
    }
