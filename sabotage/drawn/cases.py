"""Random cases by theme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Final

from stepward.sabotage.drawn.beside_secret import beside_secret_case
from stepward.sabotage.drawn.bodies import bodies_case
from stepward.sabotage.drawn.branches import branches_case
from stepward.sabotage.drawn.errors import listing_policy
from stepward.sabotage.drawn.expressions import expression_program
from stepward.sabotage.drawn.flows import flows_case
from stepward.sabotage.drawn.guards import guards_case
from stepward.sabotage.drawn.invoked import invoked_case
from stepward.sabotage.drawn.items import items_case
from stepward.sabotage.drawn.joins import joins_case
from stepward.sabotage.drawn.machine import DAYS, DrawnCase, Parted
from stepward.sabotage.drawn.nulls import misread, with_nulls
from stepward.sabotage.drawn.policies import policies_case
from stepward.sabotage.drawn.room import room_case
from stepward.sabotage.drawn.rounds import rounds_case
from stepward.sabotage.drawn.secret import secret_inputs, secret_program
from stepward.sabotage.drawn.spelled import misread_text
from stepward.sabotage.drawn.stalls import stalls_case
from stepward.sabotage.drawn.waiting import with_deadlines, with_limit, with_waits
from stepward.sabotage.drawn.wide import Theme, wide_program
from stepward.sabotage.drawn.within import within_case
from stepward.sabotage.drawn.world import LATE, LOST, RAISING, Manner
from stepward.vm import Policy, Program, ProgramError
from stepward.vm.language.meaning import Meaning
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Limits

SHARE_OF_APPROVALS: Final = 0.5
"""The share of programs of the theme `time` in which most calls suspend the run."""

MOST_DRAWS: Final = 5
"""The number of programs that are drawn for one case until one has types without contradiction."""

SHARE_OF_GUARDS: Final = 0.5
"""The share of the cases of the theme `rules` that ask how some call ended."""

SHARE_BESIDE_SECRETS: Final = 0.3
"""The share of the cases of the theme `secrets` in which calls are settled beside one that knows a secret."""

SHARE_OF_STALLS: Final = 0.3
"""The share of the cases of the theme `budgets` that only assign like values."""

SHARE_OF_ROOM: Final = 0.4
"""The share of the cases of the theme `sizes` in which the outputs of all steps together are too large."""

SHARE_WITHIN: Final = 0.5
"""The share of the cases of the theme `order` in which rules ask for one sub-step before another."""

SHARE_LISTED: Final = 0.3
"""The share of the cases of the theme `errors` in which a policy lists errors of tools, too."""

CALLS: Final = ("call",) * 4

THEMES: Final[Mapping[str, tuple[Theme, Manner]]] = {
    "all": (Theme(calm=0.3), Manner()),
    "types": (
        Theme((*CALLS, "set", "parallel", "end"), 5, types=0.7, rules=0.1, policies=0.1, budgets=0.05, calm=0.2),
        Manner(beside=0.6, echoes=0.0),
    ),
    "rules": (
        Theme(
            (*CALLS, "condition", "condition", "set", "parallel", "parallel"),
            most_steps=6,
            rules=1.0,
            traps=0.5,
            policies=0.4,
            budgets=0.05,
            repeats=0.3,
            later=0.3,
            limits=0.6,
            calm=0.7,
        ),
        Manner(beside=0.02, echoes=0.0, weights=LATE),
    ),
    "people": (
        Theme(
            (*CALLS, *CALLS, "set", "parallel"),
            most_steps=5,
            rules=0.3,
            policies=0.6,
            waivers=0.9,
            later=0.9,
            alike=0.8,
            waits=0.6,
            calm=0.9,
        ),
        Manner(beside=0.02, echoes=0.0),
    ),
    "waivers": (
        Theme(
            (*CALLS, "condition", "set"),
            most_steps=4,
            rules=0.1,
            policies=0.9,
            waivers=0.9,
            later=0.7,
            waits=0.4,
            budgets=0.05,
            calm=0.8,
        ),
        Manner(beside=0.02, echoes=0.0),
    ),
    "budgets": (
        Theme(
            (*CALLS, "condition", "set", *["parallel"] * 4),
            most_steps=5,
            rules=0.2,
            policies=0.1,
            budgets=0.6,
            repeats=0.4,
            later=0.1,
            models=0.6,
            calm=0.8,
        ),
        Manner(beside=0.05, echoes=0.0),
    ),
    "order": (
        Theme(
            ("call", "condition", "set", *["parallel"] * 6),
            most_steps=5,
            rules=0.7,
            policies=0.2,
            budgets=0.05,
            repeats=0.3,
            waits=0.15,
            later=0.2,
            calm=0.6,
            ordered=0.9,
        ),
        Manner(beside=0.03, echoes=0.1),
    ),
    "errors": (
        Theme(
            (*CALLS, *CALLS, "condition", "parallel", "set"),
            most_steps=6,
            rules=0.3,
            policies=0.15,
            budgets=0.1,
            later=0.1,
            calm=0.8,
            errors=1.0,
        ),
        Manner(beside=0.02, echoes=0.0, weights=RAISING),
    ),
    "sizes": (
        Theme((*CALLS, "set", "set", "parallel"), 5, rules=0.1, policies=0.1, budgets=0.1, calm=0.7),
        Manner(beside=0.02, at_limit=0.5, echoes=0.0),
    ),
}
"""The themes: the features that programs have more of, and how the world answers."""


def drawn_case(theme: str, seed: str, options: Mapping[str, Any] = MappingProxyType({})) -> DrawnCase | None:
    """Return the case of a theme and a seed, on machines with these options, or None if no valid program was drawn.

    Raises Parted for a program that is read wrongly.
    """
    for number in range(MOST_DRAWS):
        case = _MAKERS.get(theme, _of_theme)(theme, f"{theme} {seed} {number}")
        if not Meaning(case.program, case.policies).typing.conflicts:
            return case._replace(options=options)
    return None


def _of_theme(name: str, seed: str) -> DrawnCase:
    theme, manner = THEMES[name]
    data, policies, later = wide_program(seed, theme)
    chance = Random(f"limits {seed}")
    program = Program.from_dict(data)
    if name == "errors" and Random(f"listed {seed}").random() < SHARE_LISTED:
        policies = [*policies, listing_policy(data.get("tools", ()), Random(f"lists {seed}"))]
    if name == "all":
        noisy = with_nulls(data, chance)
        read = Program.from_dict(noisy)
        why = misread(read, noisy, program) or misread_text(noisy, chance)
        if why is not None:
            raise Parted("program", why)
    most = chance.choice((24, 40, 100, 300, 600)) if manner.at_limit else Limits().output_bytes
    return DrawnCase(
        program,
        seed,
        list(map(Policy.from_dict, policies)),
        list(map(Policy.from_dict, later)),
        manner,
        Limits(output_bytes=most, steps=chance.choice((8, 60, 60, 60))),
        day=chance.choice(list(DAYS)),
    )


def _secret(_: str, seed: str) -> DrawnCase:
    if Random(f"beside? {seed}").random() < SHARE_BESIDE_SECRETS:
        return beside_secret_case(seed)
    program = Program.from_dict(secret_program(seed))
    inputs, unique, repeated = secret_inputs(seed, list(program.inputs or {}))
    manner = Manner(beside=0.1, echoes=0.5) if unique else Manner(beside=0.02, echoes=0.9, weights=LOST)
    return DrawnCase(
        program, seed, manner=manner, limits=Limits(steps=60), secrets=repeated, unique=unique, inputs=inputs
    )


def _ruled(theme: str, seed: str) -> DrawnCase:
    return guards_case(seed) if Random(seed).random() < SHARE_OF_GUARDS else _of_theme(theme, seed)


def _budgeted(theme: str, seed: str) -> DrawnCase:
    return stalls_case(seed) if Random(f"stalls? {seed}").random() < SHARE_OF_STALLS else _of_theme(theme, seed)


def _ordered(theme: str, seed: str) -> DrawnCase:
    return within_case(seed) if Random(f"within? {seed}").random() < SHARE_WITHIN else _of_theme(theme, seed)


def _sized(theme: str, seed: str) -> DrawnCase:
    return room_case(seed) if Random(f"room? {seed}").random() < SHARE_OF_ROOM else _of_theme(theme, seed)


def _computing(_: str, seed: str) -> DrawnCase:
    program, inputs = expression_program(seed)
    return DrawnCase(Program.from_dict(program), seed, inputs=inputs)


def _timed(_: str, seed: str) -> DrawnCase:
    chance = Random(f"waits {seed}")
    if chance.random() < SHARE_OF_APPROVALS:
        case = _of_theme("people", seed)
        return case._replace(program=Program.from_dict(with_deadlines(case.program.to_dict(), chance)))
    case = chance.choice((lambda one: _of_theme("all", one), bodies_case, branches_case))(seed)
    timed = with_limit(with_waits(case.program.to_dict(), chance, 1.0), chance, 0.5)
    waits = Program.from_dict(with_deadlines(timed, chance))
    return case._replace(program=waits) if _is_runnable(waits) else case


def _is_runnable(program: Program) -> bool:
    try:
        Plan(program)
    except ProgramError:  # a wait may take the place of what bounded a loop
        return False
    return True


_MAKERS: Final[Mapping[str, Callable[[str, str], DrawnCase]]] = {
    "secrets": _secret,
    "expressions": _computing,
    "policies": lambda _, seed: policies_case(seed),
    "bodies": lambda _, seed: bodies_case(seed),
    "branches": lambda _, seed: branches_case(seed),
    "calls": lambda _, seed: invoked_case(seed),
    "items": lambda _, seed: items_case(seed),
    "flows": lambda _, seed: flows_case(seed),
    "joins": lambda _, seed: joins_case(seed),
    "rounds": lambda _, seed: rounds_case(seed),
    "rules": _ruled,
    "budgets": _budgeted,
    "order": _ordered,
    "sizes": _sized,
    "time": _timed,
}
