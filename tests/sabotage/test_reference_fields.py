"""Assigned fields of objects on machine and reference in lockstep, and mistakes of both that this finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sizes import size
from stepward.sabotage.drawn.lockstep import RunSummary, lockstep
from stepward.sabotage.drawn.machine import DrawnCase, Parted
from stepward.sabotage.drawn.wide import wide_program
from stepward.sabotage.reference.data import Data
from stepward.sabotage.reference.fields import Fields, by_variable, objects_in, paths_in, put_at, values_in
from stepward.sabotage.reference.plain import Unworded, is_worded, same
from stepward.vm import Meaning, Policy, Program, RunRefused
from stepward.vm.expressions.paths import is_path
from stepward.vm.machine import data as machine_data
from stepward.vm.values import FrozenMap


def cases(first: int, last: int) -> Iterator[DrawnCase]:
    """Yield the drawn programs that assign fields, but for those of which the types conflict (SW203)."""
    for seed in range(first, last):
        data, *both = wide_program(str(seed))
        if not any(is_path(key) for step in data["steps"] for key in step.get("set", ())):
            continue
        made, (now, later) = Program.from_dict(data), [list(map(Policy.from_dict, policies)) for policies in both]
        if not Meaning(made, [*now, *later]).typing.conflicts:
            yield DrawnCase(made, f"fields {seed}", now, later)


def runs(first: int, last: int) -> Iterator[RunSummary]:
    return map(lockstep, cases(first, last))


def test_in_lockstep() -> None:
    found = list(runs(0, size(50, 4_600)))
    assert len(found) >= size(1, 200)


# -- mistakes are found ------------------------------------------------------------------------------------------------


def mutating(tree: Any, base: Any, reader: Any) -> Any:
    """Put the new fields into the object itself: whatever else has it is changed, too."""
    whole = reader.raw(base.names)
    if isinstance(whole, FrozenMap):
        made = {name: machine_data.computed(part, reader) for name, part in zip(tree.names, tree.parts, strict=True)}
        dict.update(whole, made)
    return whole


def forgetful(tree: Any, base: Any, reader: Any) -> Any:
    """Forget the other fields of the object."""
    reader.raw(base.names)
    return FrozenMap(
        (name, machine_data.computed(part, reader)) for name, part in zip(tree.names, tree.parts, strict=True)
    )


@pytest.mark.parametrize("mistake", [mutating, forgetful])
def test_mistakes_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch, mistake: Any) -> None:
    monkeypatch.setattr(machine_data, "_changed", mistake)
    with pytest.raises((Parted, RunRefused)):  # the object may be a constant of the program itself
        list(runs(0, 3_000))


REAL_CHANGED = Data.changed


def alone(self: Data, names: tuple[str, ...], fields: Fields) -> Any:
    """Forget the other fields of the object."""
    value, hidden = REAL_CHANGED(self, names, fields)
    return {name: value[name] for name in fields}, hidden


def test_a_mistake_of_the_reference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Data, "changed", alone)
    with pytest.raises(Parted):
        list(runs(0, 3_000))


# -- how the reference reads a path ------------------------------------------------------------------------------------


def test_the_reference_reads_paths() -> None:
    found = by_variable({"o.a.b": 1, "x": 2, 'o["c d"]': "$x", "p/o.n": 3})
    assert found == {"o": {"a": {"b": 1}, "c d": "$x"}, "x": 2, "p/o": {"n": 3}}
    assert list(values_in(found["o"])) == [1, "$x"]
    assert list(objects_in(("o",), found["o"])) == [("o",), ("o", "a")]
    assert list(paths_in(("o",), found["o"])) == [("o", "a", "b"), ("o", "c d")]
    assert put_at(found["o"], ("a", "b", "deep")) == (1, ("deep",))
    assert put_at(found["o"], ("a", "other")) is None


def test_errors_are_told_apart_by_what_they_tell() -> None:
    """The machine writes that into its own words, so that a second error is another value, of a size of its own."""
    one, other = (Unworded.telling("it failed", [said]) for said in ("card-a", "card-b"))
    assert same(one, Unworded.telling("it failed", ["card-a"]))
    assert not same({"why": [one]}, {"why": [other]})
    assert is_worded({"why": ["it failed"]})
    assert not is_worded({"why": [one]})
