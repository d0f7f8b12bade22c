"""The functions of the Lisp: an example of each, and what single ones refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepward.vm.lisp import evaluate
from stepward.vm.lisp.functions.table import rows

EXAMPLES = [
    tuple(line.split(" => "))
    for line in (Path(__file__).parent / "functions.txt").read_text(encoding="utf-8").splitlines()
    if line
]


def test_every_function_gives_what_its_examples_say() -> None:
    for text, shown in EXAMPLES:
        outcome = evaluate(text)
        assert outcome.shown == shown, (text, outcome.error)


def test_every_function_has_an_example() -> None:
    named = {word for text, _ in EXAMPLES for word in re.findall(r"[^\s()\[\]{}\"]+", text)}
    assert not rows().keys() - named - {"fail"}


def test_every_function_says_what_it_does_and_how_it_is_called() -> None:
    for row in rows().values():
        assert row.doc.endswith("."), row.name
        assert "\n" not in row.doc, row.name
        assert row.most is None or row.least <= row.most, row.name


def test_every_function_refuses_too_few_and_too_many_arguments() -> None:
    for name, row in rows().items():
        for count in {row.least - 1, 9 if row.most is not None else -1} - {-1}:
            error = evaluate(f"({name} {' '.join(['nil'] * count)})").error
            assert error is not None, name
            assert error.reason == "arity_error", name
            assert row.usage in error.hint, name


REFUSED = {
    '(+ 1 "2")': ("type_error", "`+` needs a number, not a text"),
    "(+ 1 nil)": ("type_error", "`+` needs a number, not nil"),
    "(/ 1 0)": ("arithmetic_error", "`/` divides by zero"),
    "(mod 1 0)": ("arithmetic_error", "`mod` divides by zero"),
    "(sqrt -1)": ("arithmetic_error", "`sqrt` needs a number that is not negative"),
    "(pow 10 1000)": ("arithmetic_error", "the result of `*` has over 1000 digits"),
    "(nth [1] 1)": ("bounds_error", "there is no item 1 among 1"),
    "(pop [])": ("bounds_error", "`pop` needs an item, and the collection is empty"),
    '(subs "abc" 2 9)': ("bounds_error", "the part 2 to 9 is not within the 3 characters"),
    "(assoc [1] 5 2)": ("bounds_error", "there is no item 5 among 1"),
    '(sort [1 "a"])': ("type_error", "a text and a number have no order"),
    "(even? 1.5)": ("type_error", "`even?` needs a whole number, not a number with a fraction"),
    "(count 5)": ("type_error", "`count` needs a collection, a text or nil, not a number"),
    "(contains? '(1) 1)": ("type_error", "`contains?` needs a map, a set, a vector or a text, not a list"),
    '(sum ["1"])': ("type_error", "`sum` needs numbers, not a text"),
    '(re-find #"(?=a)" "a")': ("invalid_form", '`"(?=a)"` is no pattern: invalid perl operator: (?='),
    '(format "%q" 1)': ("invalid_form", "`%q` is no directive of `format`"),
    '(format "%d")': ("arity_error", "`%d` of the format has no value"),
    "(conj {} 1)": ("type_error", "`conj` adds entries `[key value]` or a map to a map, not `1`"),
    "(count (range))": ("type_error", "`count` needs all items, and the sequence has no end"),
    "(1 2)": ("not_callable", "a number is no function: `1`"),
    '(fail "no orders")': ("failed", "no orders"),
    "(fail {:code 7})": ("failed", "{:code 7}"),
    "(combinations (range 50) 25)": ("steps_exceeded", "the program takes more than 1000000 steps"),
    "(bit-shift-left 1 64)": ("bounds_error", "`bit-shift-left` needs a position from 0 to 63, not 64"),
    "(json/generate-string inc)": ("type_error", "a function is no data"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_function_refuses(text: str) -> None:
    error = evaluate(text).error
    assert error is not None
    assert (error.reason, error.message) == REFUSED[text]
    assert error.span is not None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('(:a {"a" 1})', "1"),
        ('(get {:a 1} "a")', "1"),
        ('(:a {:a 9 "a" 1})', "9"),
        ('(update {"n" 1} :n inc)', '{"n" 2}'),
        ('(dissoc {"n" 1} :n)', "{}"),
        ('(assoc-in {"a" {"b" 1}} [:a :b] 2)', '{"a" {"b" 2}}'),
        ('(let [{:keys [a]} {"a" 1}] a)', "1"),
        ('(contains? #{"a"} :a)', "false"),
    ],
)
def test_keyword_and_text_of_one_name_find_one_entry(text: str, shown: str) -> None:
    assert evaluate(text).shown == shown


def test_booleans_and_numbers_are_different_keys() -> None:
    assert evaluate("[(= 1 true) (get {1 :one true :yes} true) (count #{1 true 0 false})]").shown == "[false :yes 4]"
    assert evaluate("(= [1] [true])").shown == "false"
    assert evaluate("(distinct [[1] [true]])").shown == "([1] [true])"


def test_a_value_is_not_changed_by_what_is_made_of_it() -> None:
    assert evaluate("(let [a [1] b (conj a 2) c (conj a 3)] [a b c])").shown == "[[1] [1 2] [1 3]]"
    assert evaluate("(let [a [1 2 3] b (pop a) c (conj b 9)] [a b c])").shown == "[[1 2 3] [1 2] [1 2 9]]"
    assert evaluate("(let [m {:a 1} n (assoc m :b 2)] [m n (dissoc n :a)])").shown == "[{:a 1} {:a 1, :b 2} {:b 2}]"
