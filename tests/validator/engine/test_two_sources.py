"""One variable, two sources, one question: what is proved of such programs must survive every run of the machine.

The grid of `two_sources.py` has some two million programs; a sample is tried, always the same one. What broke once is
in it, and planted mistakes must be caught by it. `STEPWARD_TWO_SOURCES=20000` tries that many.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from layers import impatient, only
from sizes import asked_for
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.validator.engine.search import explicit
from stepward.validator.engine.systems.system import Literal
from stepward.validator.engine.values.partition import Partition
from stepward.validator.engine.values.states import UNDEFINED
from stepward.vm import Program
from two_sources import Source, happens, picked, program, source

SAMPLE = asked_for("STEPWARD_TWO_SOURCES", 10, 100)
CHUNK = 20
ALONE = {"explicit search": 20, "block formula": 15}

OF_OURS = ("SW901", "SW903")
"""What the checker says of itself: a witness that the machine does not confirm, an internal error."""

Case = tuple[Source, Source, str, str]


def broke_once() -> list[Case]:
    """Return programs of which something was proved that does not hold."""

    def a(giver: str, what: Any) -> Source:
        return source(giver, what, "a")

    def b(giver: str, what: Any) -> Source:
        return source(giver, what, "b")

    return [
        (a("literal", []), b("tool", "scores"), "then", "len($v) > 0"),
        (a("literal", []), b("tool", "marks"), "then", "len($v) > 0"),
        (a("tool", "texts"), b("literal", []), "error", "len($v) > 0"),
        (a("tool", "marks"), b("tool", "nulls"), "or", "len($v) == 2"),
        (a("input", "text"), b("tool", "empty text"), "then", "$v contains 'ok'"),
        (a("model", "letters"), b("field", "empty text"), "then", "not ($v contains 'ok')"),
        (a("sub-step", "text"), b("input", "one sign"), "then", "$v contains 'ok'"),
        (a("tool", "order"), b("tool", "short order"), "then", "$v.f == 'a'"),
        (a("literal", "a"), b("tool", "letters"), "or", "1 == 2"),
        (a("literal", None), b("literal", {}), "or", "$v.f == 'a'"),
        (a("field", "no letter"), b("input", "order"), "loop", "len($v.f) > 0"),
        (a("tool", "flag"), b("tool", "nulls"), "then", "$v"),
        (a("literal", False), b("literal", 0), "or", "$v == false"),
        (a("literal", [1]), b("literal", [True]), "or", "not ($v contains 1)"),
        (a("literal", {"f": 1}), b("literal", {"f": True}), "or", "$v.f == 1"),
    ]


def checked(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data), recheck=False).validate()


def untrue(case: Case) -> list[str]:
    """Return what the checker says of a program that a run of the machine shows to be wrong."""
    data = program(*case)
    try:
        report = checked(data)
    except Exception as error:  # whatever it is, it is one more thing to report
        return [f"{data['name']}: the checker breaks: {type(error).__name__}: {error}"]
    said = {(prop.name, prop.rule): prop.verdict is Verdict.PROVED for prop in report.properties}
    claims = {
        "holds": ({"holds", "breaks"}, said["never", "holds"]),
        "fails": ({"fails", "breaks"}, said["never", "fails"]),
        "booked": ({"fails", "breaks"}, said["followed_by", "booked"]),
        "covered": ({"fails"}, said.get(("coverage", "c"), False)),
    }
    for finding in report.findings:
        if finding.code == "SW303" and finding.step == "c":
            claims[finding.message] = ({"fails" if "always true" in finding.message else "holds"}, True)
        if finding.code == "SW103" and finding.step == "y":
            claims[finding.message] = ({"holds"}, True)
    claimed = {words: refuting for words, (refuting, is_claimed) in claims.items() if is_claimed}
    seen = happens(data, *case[:3]) if claimed else set()
    wrong = [f"{data['name']}: `{words}`, but it {seen}" for words, refuting in claimed.items() if refuting & seen]
    return wrong + [f"{data['name']}: {finding.message}" for finding in report.findings if finding.code in OF_OURS]


def sample(count: int) -> list[Case]:
    return [*broke_once(), *(picked(Random(f"two sources {number}")) for number in range(count))]


@pytest.mark.parametrize("chunk", range(-(-SAMPLE // CHUNK)))
def test_no_run_refutes_what_is_proved(chunk: int) -> None:
    cases = sample(SAMPLE)[chunk * CHUNK :][: CHUNK if (chunk + 1) * CHUNK < SAMPLE else None]
    assert [words for case in cases for words in untrue(case)] == []


@pytest.mark.slow
@pytest.mark.parametrize("layer", ALONE)
def test_no_run_refutes_what_a_layer_alone_proves(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, layer)
    impatient(monkeypatch)
    assert [words for case in sample(ALONE[layer] * SAMPLE // 100) for words in untrue(case)] == []


def _by_one_value(self: Partition, domain: Any) -> int:
    known = ((number, value) for number, value in enumerate(self.values) if value is not UNDEFINED)
    return sum(1 << number for number, value in known if domain.allows(value))


def _never_uncovered(self: TransitionChoices, step: int, way: Any) -> bool | None:
    decided = self.facts.decided_branch(step)
    return None if decided is None else way.branch == decided


PLANTED = {
    "a source is asked for the value that stands for a class": (Partition, "classes_of", _by_one_value),
    "a constant condition is never uncovered": (TransitionChoices, "_is_decided", _never_uncovered),
    "what Python takes for one is one": (Literal, "__eq__", tuple.__eq__),
    "a list of 1 is a list of true": (explicit, "_within", lambda value: iter(())),
    "a condition never fails": (TransitionChoices, "_may_fail", lambda self, step: False),
    "what is given is all that was given before": (Partition, "classes_of", lambda self, domain: 1),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mistake", PLANTED)
def test_the_sample_tells_a_planted_mistake(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, wrong = PLANTED[mistake]
    monkeypatch.setattr(place, name, wrong)
    told = (words for case in broke_once() for words in untrue(case))
    assert any("but it" in words for words in told), "nothing but errors tells it"
