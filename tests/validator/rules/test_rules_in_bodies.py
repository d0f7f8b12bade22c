"""Table: each rule, in each place in which its faulty steps can stand: a rule that goes blind in a body is a defect.

The steps of every bad program are put there, and the rule alone is asked. What it does not find there by design says
its page.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from bodied_places import PLACES
from paths import BAD
from sizes import MANY
from stepward.validator.context import Context
from stepward.validator.rules.registry import RULE_BY_CODE
from stepward.vm import Program, ProgramError
from stepward.vm.language.policy import Policy
from stepward.vm.reading.files import read_file

OF_TEXTS: Final = {"SW001", "SW003", "SW004"}
"""Rules of how a file is written."""

OF_FILES: Final = {"SW221", "SW222", "SW701", "SW702", "SW703", "SW704"}
"""Rules of what stands beside a program: functions, comments, policies and baselines."""

OF_STEPWARD: Final = {"SW901", "SW902", "SW903"}

BODIES: Final = frozenset(PLACES) - {"top", "behind a failure"}
CALLED: Final = frozenset({"called", "called in for_each"})
BRANCHES: Final = frozenset({"branch", "branch behind another", "branch with rules"})
BY_DESIGN: Final[dict[str, frozenset[str]]] = {
    "SW107": BODIES,  # the ends of a body are no endings of the run
    "SW210": CALLED,  # a called program without `inputs` takes none (SW201)
    "SW002/language-1.yaml": frozenset(PLACES),  # each place is in language 2
    "SW106/obvious.yaml": frozenset({"behind a failure"}),  # the step is not the first any more
    "SW402/next-item.yaml": BRANCHES,  # nothing bounds its loop there (SW105)
}
LEFT_OPEN: Final[dict[str, frozenset[str]]] = {
    # No run is found for the path, so the rule asks about it (SW408).
    "SW405/body.yaml": CALLED,
}


ONCE_BLIND: Final = {"SW203/conflicting-uses.yaml", "SW214/subtle.yaml", "SW305/subtle.yaml"}
"""Programs besides the first of each rule that are tried by day, too."""


def programs() -> list[Path]:
    """Return the bad programs whose steps can be put elsewhere; by day the first of each rule, and a few others."""
    found = []
    for folder in sorted(BAD.iterdir()):
        if folder.name not in OF_TEXTS | OF_FILES | OF_STEPWARD:
            names = sorted((*folder.glob("*.yaml"), *folder.glob("*.json")))
            own = [one for one in names if ".policy" not in one.name and one.stem != "steps-only"]
            found += [one for one in own if MANY or one.stem == "obvious" or f"{folder.name}/{one.name}" in ONCE_BLIND]
    return found


def plain(value: Any) -> Any:
    """Return data with numbers as JSON has them."""
    return json.loads(json.dumps(value, default=lambda one: float(one) if isinstance(one, Decimal) else one))


def codes(data: Any, code: str, path: Path) -> set[str]:
    """Return the code if its rule finds something, and the codes for which a program is refused."""
    policy = path.with_suffix(".policy.yaml")
    try:
        program = Program.from_dict(data)
    except ProgramError as error:
        return {problem.code for problem in error.problems}
    context = Context(program, [Policy.load(policy)] if policy.exists() else [])
    return {one.code for one in RULE_BY_CODE[code]().check(context)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("path", programs(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_rule_finds_its_mistake_in_each_place(path: Path, place: str) -> None:
    code, (document,) = path.parent.name, read_file(path)
    name = f"{code}/{path.name}"
    found = codes(PLACES[place](plain(document.data)), code, path)
    is_excused = place in BY_DESIGN.get(code, ()) or place in BY_DESIGN.get(name, ())
    is_open = place in LEFT_OPEN.get(name, ())
    assert (code in found) is not (is_excused or is_open), found


def test_every_rule_is_in_the_table() -> None:
    asked = {path.parent.name for path in programs()}
    assert asked | OF_TEXTS | OF_FILES | OF_STEPWARD == set(RULE_BY_CODE)
