"""Search: whatever is done to a good program, the check ends with findings or none, and never with another error.

`STEPWARD_MUTANTS` says how many programs are tried for each seed. The second checker takes part for the first seed
only; it has searches of its own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from paths import ROOT
from sizes import asked_for
from stepward.validator.validator import validate_document
from stepward.vm.reading.files import read_file
from stepward.vm.reading.json_format import read_json

ODD: list[Any] = [None, True, 0, -1, 1.5, "", "$x", "$", "x y", [], {}, [None], {"a": None}, "then", "$x == 1", "'"]
FIELDS = ["foo", "then", "cases", "set", "type", "output_key", "error_step", "when"]
MUTANTS = asked_for("STEPWARD_MUTANTS", 16, 150)


def paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if way:
        yield way
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*way, key))


def at(data: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        data = data[key]
    return data


def mutate(data: Any, chance: Random) -> None:
    """Delete, replace, copy or rename one part of a document."""
    *way, last = chance.choice(list(paths(data)))
    owner = at(data, tuple(way))
    act = chance.choice(["delete", "replace", "copy", "copy", "rename"])
    if act == "delete":
        del owner[last]
    elif act == "replace":
        owner[last] = copy.deepcopy(chance.choice(ODD))
    elif act == "copy":
        owner[last] = copy.deepcopy(at(data, chance.choice(list(paths(data)))))
    elif isinstance(owner, dict):
        owner[chance.choice(FIELDS)] = owner.pop(last)


@pytest.mark.parametrize("seed", range(4))
def test_no_mutant_of_a_good_program_makes_the_check_fail(seed: int) -> None:
    chance = Random(seed)
    documents = [read_file(path)[0].data for path in sorted((ROOT / "specs/programs/good").glob("*.yaml"))]
    loaded = 0
    for _ in range(MUTANTS):
        data = copy.deepcopy(chance.choice(documents))
        for _ in range(chance.randint(1, 3)):
            mutate(data, chance)
        report = validate_document(read_json("mutant", json.dumps(data, default=float)), recheck=seed == 0)
        loaded += report.program != ""
    assert loaded > MUTANTS // 15, "most mutants get no further than their shape"
