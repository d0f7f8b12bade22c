"""Which features of the language the random generators make: a table, kept in `language_features.txt`.

No feature may be one that no generator makes, but for those in `EXEMPT`, each with its reason.
`make fixtures` writes the table anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from hypothesis import HealthCheck, Phase, given, settings

import condition_lists
import programs
import strategies
import systems
from bodied_programs import bodied_program
from branched_programs import branched_program
from called_programs import called_program
from concurrent_programs import concurrent_program
from failing_programs import too_long, tried_branches, tried_items
from language_features import every_feature, expression_features, features_of, type_features
from ordered_programs import ordered_program
from paths import DATA
from rare_programs import rare_programs
from seasoned_programs import seasoned_program
from small_programs import small_program
from stepward.sabotage.campaigns.specimen_programs import SPECIMENS, specimen_target
from stepward.sabotage.drawn.bodies import body_program
from stepward.sabotage.drawn.branches import branch_program
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.invoked import invoking_program
from stepward.sabotage.drawn.items import items_program
from stepward.sabotage.drawn.wide import wide_program
from stepward.vm.errors import PolicyError, ProgramError
from stepward.vm.language.steps import STEP_MODELS

TABLE = DATA / "language_features.txt"
SEEDS = 150
FEWER = 100

CONTINUED = (
    "only the machine writes it, for a continuation: `test_continued_rules.py` and `test_continued_runs.py` make it"
)
EXEMPT = {
    "AtMostOnce.already": CONTINUED,
    "Came.level=fresh": CONTINUED,
    "Came.level=never": CONTINUED,
    "Came.level=stale": CONTINUED,
    "Came.reads": CONTINUED,
    "Exclusive.already": CONTINUED,
    "FollowedBy.already": CONTINUED,
    "Performed.args": CONTINUED,
    "Performed.tool": CONTINUED,
    "Performed.without": CONTINUED,
    "Policy.continues": CONTINUED,
    "Policy.performed": CONTINUED,
    "Requires.already": CONTINUED,
    **{
        f"CalledProgram.{field}": "as that of a program, or judged by `test_calls.py` and `test_machine_calls.py`"
        for field in ("description", "file", "language", "name", "programs", "tools", "version")
    },
    **{
        f"CalledProgram.{field}": "a budget of a file counts only when it runs alone: `test_calls.py`"
        for field in ("max_cost", "max_stalled_steps", "max_steps", "max_tokens", "timeout_seconds")
    },
    **{
        f"InvokeStep.{field}": "as the field of a for_each step, which is made"
        for field in ("is_terminal", "outcome=failure", "outcome=success", "output_key")
    },
    "InvokeStep.returns": "`test_machine_calls.py` judges it, and the reference plays it",
    "Policy.requires_deadline": "the gate alone reads it: the programs of SW603",
    "Policy.four_eyes": "who settles a call: `test_machine_authority.py` judges it, generated runs name nobody",
}
"""What no generator need make, and why."""
UNJUDGED = EXEMPT | {
    "Program.max_stalled_steps": "the enumeration keeps no values that nothing reads; the reference counts them",
    "TypeSpec.sensitive": "what reaches a prompt is judged by the campaign's oracle; proofs do not speak of it",
    "constant fraction": "numbers are whole where every run is enumerated; lists of conditions have fractions",
    **{
        f"ComputeStep.{field}": "as the field of a tool's step, which is made"
        for field in ["is_terminal", "max_visits", "outcome=failure", "outcome=success"]
    },
    "LlmStep.outcome=failure": "a matter of chance: that of tools and of `set` is made",
}
"""What the small and the seasoned programs, of which every run is enumerated, need not have, and who judges it."""


WHERE = (
    "small_programs.py, rare_programs.py, small_language.py or seasoned_programs.py in tests/support make it, "
    "and brute_force.py plays it"
)


def by_small() -> set[str]:
    return set().union(*(features_of(data) for data in (*rare_programs(), *map(small_program, range(FEWER)))))


def by_seasoned() -> set[str]:
    found = [seasoned_program(seed) for seed in range(SEEDS)]
    return set().union(*(features_of(one.program, one.policies) for one in found))


def by_ordered() -> set[str]:
    return set().union(*(features_of(ordered_program(seed)) for seed in range(FEWER // 4)))


def by_bodied() -> set[str]:
    longer = (too_long(seed, bodied_program) for seed in range(FEWER // 4))
    return set().union(*map(features_of, (*map(bodied_program, range(FEWER)), *longer)))


def by_branched() -> set[str]:
    makers = (branched_program, concurrent_program, tried_branches, tried_items)
    made = [make(seed) for seed in range(FEWER // 4) for make in makers]
    return set().union(*map(features_of, made))


def by_called() -> set[str]:
    return set().union(*(features_of(called_program(seed)) for seed in range(FEWER // 4)))


def by_wide() -> set[str]:
    found: set[str] = set()
    for number in range(FEWER + FEWER // 2):
        make = wide_program if number < FEWER else body_program
        data, policies, later = make(f"features/{number}")
        try:
            found |= features_of(data, [*policies, *later])
        except (ProgramError, PolicyError):  # not all are programs
            continue
    timed = [drawn_case("time", str(seed)) for seed in range(20)]
    found |= set().union(*(features_of(case.program.to_dict()) for case in timed if case is not None))
    drawn = [make(str(seed)) for seed in range(20) for make in (branch_program, items_program, invoking_program)]
    return found.union(*map(features_of, drawn))


def by_random() -> set[str]:
    found: set[str] = set()

    @settings(max_examples=FEWER, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(programs.programs())
    def collect(data: dict[str, object]) -> None:
        found.update(features_of(data))

    collect()
    return found


def by_conditions() -> set[str]:
    texts: list[str] = []

    @settings(
        max_examples=FEWER, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategies.conditions())
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    return expression_features(texts)


def by_lists() -> set[str]:
    atoms = (condition_lists.few_atom, condition_lists.many_atom, condition_lists.sum_atom)
    texts = [text for atom in atoms for one in condition_lists.lists(0, FEWER, atom) for text in one]
    return expression_features(texts) | type_features([*condition_lists.FEW.values(), *condition_lists.MANY.values()])


def by_systems() -> set[str]:
    return features_of(systems.PROGRAM) | expression_features(systems._CONDITIONS)


def by_attacks() -> set[str]:
    targets = [specimen_target(name) for name in SPECIMENS]
    return set().union(
        *(features_of(target.program.to_dict(), [policy.to_data() for policy in target.policies]) for target in targets)
    )


GENERATORS: dict[str, Callable[[], set[str]]] = {
    "small": by_small,
    "seasoned": by_seasoned,
    "ordered": by_ordered,
    "bodied": by_bodied,
    "branched": by_branched,
    "called": by_called,
    "wide": by_wide,
    "random": by_random,
    "conditions": by_conditions,
    "lists": by_lists,
    "systems": by_systems,
    "specimens": by_attacks,
}


@cache
def made() -> dict[str, set[str]]:
    return {name: make() for name, make in GENERATORS.items()}


def written() -> str:
    """Return the table: a row for each feature, a column for each generator."""
    names = list(GENERATORS)
    rows = [f"{'feature':60} {' '.join(names)}".rstrip()]
    for feature in every_feature():
        marks = " ".join(("x" if feature in made()[name] else ".").center(len(name)) for name in names)
        rows.append(f"{feature:60} {marks}".rstrip())
    return "\n".join(rows) + "\n"


def test_every_feature_is_made_by_some_generator() -> None:
    everything = set().union(*made().values())
    missing = set(every_feature()) - everything - set(EXEMPT)
    assert not missing, f"no generator makes {sorted(missing)}; {WHERE}"


def test_every_feature_is_in_programs_of_which_every_run_is_enumerated() -> None:
    missing = set(every_feature()) - made()["small"] - made()["seasoned"] - made()["ordered"] - made()["bodied"]
    missing -= made()["branched"] | made()["called"]
    new, made_now = missing - set(UNJUDGED), set(UNJUDGED) - missing
    assert not new, f"no small or seasoned program has {sorted(new)}; {WHERE}"
    assert not made_now, f"they are made now, so take them out of UNJUDGED: {sorted(made_now)}"


def test_every_step_type_is_in_programs_that_the_reference_plays() -> None:
    """Machine and reference play the wide programs in lockstep: that is how a reference that lacks a type is seen."""
    missing = {f"{model.__name__}.id" for model in STEP_MODELS.values()} - made()["wide"]
    assert not missing, f"no wide program has {sorted(missing)}; sabotage/drawn/wide.py makes them"


def test_the_table_is_fresh() -> None:
    if os.environ.get("STEPWARD_WRITE_FIXTURES"):
        TABLE.write_text(written(), encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == written(), "`make fixtures` writes it"


def test_a_feature_that_is_taken_away_is_missed() -> None:
    """The detection tells a feature that is there from one that is not."""
    data = {
        "inputs": {"t": {"type": ["string", "null"], "pattern": "^a"}},
        "steps": [
            {"id": "c", "type": "condition", "condition": "1 == 1 or $t.x", "then": "e"},
            {"id": "e", "type": "end"},
        ],
    }
    found = features_of(data)
    assert {"TypeSpec.pattern", "type null", "type of several words", "operator ==", "operator or"} <= found
    assert {"mixed: a text that may be null", "mixed: a field is read behind a constant", "reference field"} <= found
    assert not {"mixed: a condition over constants", "ConditionStep.cases", "type boolean", "operator and"} & found
    assert found <= set(every_feature())
