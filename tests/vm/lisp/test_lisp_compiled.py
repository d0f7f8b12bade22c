"""Differential: random Lisp programs with tools, compiled and run on the machine, against their evaluation.

The tools give the same results to both: the calls, their order and the value must be the same.
`STEPWARD_LISP_PROGRAMS=2000` tries that many.
"""

from __future__ import annotations

from collections import Counter

import pytest

from lisp_programs import Done, Recorded, compiled, data_of, evaluated, is_alike, lisp_program
from sizes import asked_for
from stepward.vm import Program
from stepward.vm.lisp.compiling import compiler

COUNT = asked_for("STEPWARD_LISP_PROGRAMS", 40, 2_000)


def agree(one: Done, other: Done) -> bool:
    """Return whether both came to the same, by the same calls."""
    calls = zip(one.calls, other.calls, strict=False)
    return (
        one.is_fine == other.is_fine
        and is_alike(one.value, other.value)
        and len(one.calls) == len(other.calls)
        and all(left[0] == right[0] and is_alike(left[1], right[1]) for left, right in calls)
    )


def differing(count: int) -> tuple[list[str], Counter[tuple[bool, bool]]]:
    """Return the programs on which both differ, and how the others ended."""
    wrong, ended = [], Counter[tuple[bool, bool]]()
    for number in range(count):
        seed = f"lisp {number}"
        text, data = lisp_program(seed), data_of(seed)
        ours = compiled(text, data, Recorded(seed))
        if ours is None:  # an input is not of the type of its uses
            continue
        theirs = evaluated(text, data, Recorded(seed))
        ended[theirs.is_fine, bool(theirs.calls)] += 1
        if not agree(ours, theirs):
            wrong.append(f"{seed}: {text}\n  compiled {ours}\n  evaluated {theirs}")
    return wrong, ended


def test_a_compiled_program_does_what_evaluation_does() -> None:
    wrong, ended = differing(COUNT)
    assert not wrong, "\n\n".join(wrong[:5])
    assert sum(ended.values()) > 0.9 * COUNT
    assert min(ended[is_fine, has_calls] for is_fine in (True, False) for has_calls in (True, False)) > 0.02 * COUNT


@pytest.mark.parametrize(
    ("text", "calls", "value"),
    [
        ("(def f (fn g [x] (tool/rate {:of x}) x)) (f 4)", "rate", 4),
        ("(defn f [x] (tool/rate {:of x}) x) [(f 4) (f 5)]", "rate rate", (4, 5)),
        ("(def g 7) (defn f [x] (let [g x] (tool/rate {:of g})) g) (f 4)", "rate", 7),
        ('(->> (tool/find {:id 1}) (vector (tool/ask {:what "x"})) count)', "find ask", 2),
        ("(->> 1 (vector (tool/is_open)) (vector (tool/find {:id 1})) count)", "is_open find", 2),
        ('(if (== (tool/ask {:what "x"}) "yes") 1 2)', "ask", None),
        ("(if (< 99999 (tool/rate {:of 1}) (first [])) 1 2)", "rate", 2),
        ("(if (< 99999 (tool/rate {:of 1}) (+ 1 (first []))) 1 2)", "rate", None),
        ("(let [x (tool/rate {:of 1}) ok (not= x 3 4)] (if ok (tool/rate {:of 2}) 2))", "rate rate", -3),
        ("(if (<= -9 (tool/rate {:of 1}) 1 (tool/rate {:of 3})) 1 2)", "rate rate", 2),
        ('(let [x (tool/ask {:what "x"}) ok (< 1 x)] (if ok 1 2))', "ask", None),
        ('(let [x (tool/ask {:what "x"}) ok (< 5 1 x)] (if ok 1 2))', "ask", 2),
    ],
)
def test_a_name_that_ends_a_function_and_the_order_of_a_thread_are_kept(text: str, calls: str, value: object) -> None:
    ours, theirs = compiled(text, {}, Recorded("keeps 1")), evaluated(text, {}, Recorded("keeps 1"))
    assert ours is not None
    assert agree(ours, theirs), (ours, theirs)
    assert [name for name, _ in ours.calls] == calls.split()
    assert ours.value == value


def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before a call is left for later: it may fail, or be asked, too late."""
    real = compiler.Compiler.hoisted
    monkeypatch.setattr(compiler.Compiler, "hoisted", lambda self, items, env: real(self, items[::-1], env)[::-1])
    assert differing(60)[0]


def test_compiling_is_the_same_in_every_process() -> None:
    text = "(let [{:keys [b a c]} (tool/find {:id 1})] (tool/pay {:amount (+ a b) :note c}))"
    assert Program.from_lisp(text).to_json() == Program.from_lisp(text).to_json()
