"""The page specs/lisp.md: every block is run, and its tables are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from paths import ROOT
from sizes import size
from stepward.vm.lisp import Limits, evaluate
from stepward.vm.lisp.page import with_tables
from stepward.vm.lisp.special import SPECIAL

PAGE = (ROOT / "specs/lisp.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def examples() -> Iterator[tuple[str, str]]:
    """Return the programs of the page, each with what it says of them."""
    for language, text in BLOCKS:
        if language == "lisp":
            program: list[str] = []
            for line in text.splitlines():
                code, marker, said = line.partition("; ")
                program.append(code.rstrip())
                if marker:
                    yield "\n".join(program).strip(), said
                    program = []
            assert not program, f"a program says nothing of its value: {program}"


def test_blocks_are_lisp_or_python() -> None:
    assert {language for language, _ in BLOCKS} == {"lisp", "python"}
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "specs/lisp.md", "exec"), {})


@pytest.mark.parametrize(("program", "said"), list(examples()))
def test_example_does_what_the_page_says(program: str, said: str) -> None:
    limits = Limits(seconds=300)
    if said.startswith("error steps_exceeded: "):  # a million steps take seconds
        few = size(20_000, limits.steps)
        assert said.count(str(limits.steps)) == 1
        limits, said = replace(limits, steps=few), said.replace(str(limits.steps), str(few))
    outcome = evaluate(program, limits=limits)
    if outcome.shown is not None:
        assert said == f"=> {outcome.shown}"
    else:
        assert outcome.error is not None
        assert said == f"error {outcome.error.reason}: {outcome.error.message}"


def test_tables_are_those_of_the_code() -> None:
    assert with_tables(PAGE) == PAGE, "run `make docs`"


def test_page_names_all_forms() -> None:
    listed = PAGE.partition("The forms are ")[2].partition("`(return x)`")[0]
    assert set(re.findall(r"`([^`]+)`", listed)) == SPECIAL.keys() - {"defn-"} | {"#()"}
