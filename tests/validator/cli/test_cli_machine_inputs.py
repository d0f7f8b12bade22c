"""Fast: the inputs that `stepward run` is given, read as their types want them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shops import GIVEN, MAIL, SHOP, as_json, says, stepward

pytestmark = pytest.mark.usefixtures("in_shop")


TYPED = """
name: typed
inputs:
  text: {type: string, default: ""}
  choice: {enum: ["1", "2"], default: "1"}
  number: {type: number, default: 0}
  flag: {type: boolean, default: false}
  list: {type: array, default: []}
  object: {type: object, default: {}}
  maybe: {type: [string, "null"], default: null}
  either: {type: [integer, string], default: 0}
  any: {default: 0}
steps: [{id: e, type: end, output: [$text, $choice, $number, $flag, $list, $object, $maybe, $either, $any]}]
"""

NAMES = ("text", "choice", "number", "flag", "list", "object", "maybe", "either", "any")


def typed(*pairs: str) -> Any:
    arguments = [word for pair in pairs for word in ("--input", pair)]
    result = stepward("run", "typed.yaml", "--output-format", "json", *arguments)
    assert result.exit_code == 0, result.output
    return dict(zip(NAMES, as_json(result)["run"]["output"], strict=True))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("text=007", "007"),
        ("text=", ""),
        ("text= a=b ", " a=b "),
        ("text=true", "true"),
        ('text="q"', '"q"'),
        ("text=[1]", "[1]"),
        ("choice=2", "2"),
        ("number=1.50", 1.5),
        ("number=0x10", 16),
        ("number=-3", -3),
        ("flag=true", True),
        ("list=[1, yes, {a: 2}]", [1, "yes", {"a": 2}]),
        ('object={"a": [null]}', {"a": [None]}),
        ("maybe=null", None),
        ("maybe=007", "007"),
        ("maybe={a", "{a"),
        ("either=7", 7),
        ("either=x", "x"),
        ("either=7.5", "7.5"),
        ("any=yes", "yes"),
        ("any='7'", "7"),
        ("any=null", None),
    ],
)
def test_an_input_is_read_as_its_type_wants_it(pair: str, value: Any) -> None:
    Path("typed.yaml").write_text(TYPED)
    name = pair.partition("=")[0]
    found = typed(pair)[name]
    assert (found, type(found)) == (value, type(value))


def test_inputs_come_from_a_file_or_a_pipe_and_pairs_go_on_top() -> None:
    Path("in.json").write_text(json.dumps({"amount": 8, "order": "A", "mail": MAIL}))
    Path("in.yaml").write_text("amount: 8\norder: A\n")
    for file, stdin in (("in.json", None), ("in.yaml", None), ("-", "{amount: 8, order: A}")):
        arguments = ["run", "shop.yaml", *GIVEN, "--inputs", file, "--output-format", "json"]
        assert stepward(*arguments, stdin=stdin).exit_code == 1
        result = stepward(*arguments, "--input", "amount=3", stdin=stdin)
        assert result.exit_code == 0
        assert as_json(result)["run"]["output"]["order"] == "A"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["`shop` needs the inputs `amount`, `order`", "`--input amount=…`, or all of them with `--inputs FILE`"]),
        (["--input", "order=x"], ["`shop` needs the input `amount`"]),
        (["--input", "amuont=3"], ["`shop` has no input `amuont`", "did you mean `amount`?"]),
        (["--input", "zzz=3"], ["`shop` has no input `zzz`", "its inputs are `amount`, `order`, `mail`"]),
        (["--input", "amount"], ["`--input amount` is no `name=value`"]),
        (["--input", "=3"], ["`--input =3` is no `name=value`"]),
        (["--input", "amount=3", "--input", "amount=4"], ["input `amount` is given twice"]),
        (["--input", "amount={a"], ["input `amount` can't be read: not readable as YAML", "write JSON"]),
        (["--input", "amount=[1]\n---\n[2]"], ["input `amount` can't be read: it is more than one value"]),
        (["--input", "amount={a: 1, a: 2}"], ["input `amount` can't be read:"]),
        (["--input", "amount=" + "9" * 5000], ["input `amount` can't be read:"]),
        (["--input", "amount=.nan", "--input", "order=x"], ["input `amount` is no value: a number must be finite"]),
        (["--input", "amount=x", "--input", "order=x"], ['input `amount`: must be a number, not `"x"`']),
        (["--input", "amount=101", "--input", "order=x"], ["input `amount`: must be at most 100, not 101"]),
        (["--inputs", "none.json"], ["the inputs in `none.json` can't be read: no such file", "correct the path"]),
        (["--inputs", "broken.yaml"], ["the inputs in `broken.yaml` can't be read: not readable as YAML"]),
        (["--inputs", "twice.yaml"], ["the inputs in `twice.yaml` can't be read:"]),
        (["--inputs", "list.yaml"], ["`list.yaml` holds no inputs"]),
        (["--inputs", "latin.yaml"], ["the inputs in `latin.yaml` can't be read:", "not UTF-8"]),
    ],
)
def test_bad_inputs_are_refused_in_words(arguments: list[str], words: list[str]) -> None:
    Path("twice.yaml").write_text("a: 1\na: 2\n")
    Path("latin.yaml").write_bytes(b"a: \xe9\n")
    result = stepward("run", "shop.yaml", *GIVEN, "--journal", "made.db", *arguments)
    says(result, 2, f"error: {words[0]}", *words[1:])
    run_was_refused_by_the_machine = "--input" in arguments and "order=x" in arguments and len(arguments) == 4
    assert Path("made.db").exists() == (run_was_refused_by_the_machine and ".nan" not in "".join(arguments))


def test_a_sensitive_input_of_the_wrong_type_is_not_shown() -> None:
    Path("shop.yaml").write_text(SHOP.replace("{type: string, default: nobody,", "{type: string, pattern: '@',"))
    result = stepward("run", "shop.yaml", *GIVEN, "--input", "amount=1", "--input", "order=x", "--input", "mail=hush")
    says(result, 2, "error: input `mail` is not of its type")
    assert "hush" not in result.output


def test_a_program_without_inputs_has_its_names_for_inputs_of_the_type_they_are_used_as() -> None:
    Path("old.yaml").write_text(
        "name: old\nsteps:\n"
        "  - {id: c, type: condition, condition: '$text starts_with \"0\" and $n < 5', then: e, otherwise: e}\n"
        "  - {id: e, type: end, output: [$text, $n]}\n"
    )
    result = stepward("run", "old.yaml", "--input", "text=007", "--input", "n=3", "--output-format", "json")
    assert as_json(result)["run"]["output"] == ["007", 3]
