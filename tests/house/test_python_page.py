"""The page on Python: its examples run, one after the other, in one folder."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import get_args

import pytest

from paths import ROOT
from stepward.validator import assert_valid
from stepward.vm import Program
from stepward.vm.trace import AnyRecord

PAGE = (ROOT / "specs/python.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("yaml")
    Path("refund.yaml").write_text(program, encoding="utf-8")
    assert_valid(Program.load("refund.yaml"))
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks("python"):
        exec(compile(block, "python.md", "exec", dont_inherit=True), names)
    tests = [test for name, test in names.items() if name.startswith("test_") and callable(test)]
    assert len(tests) == 3
    for test in tests:
        test()
    assert names["program"] is not None


def test_the_table_of_records_has_every_field() -> None:
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", PAGE.partition("| class | fields")[2], re.MULTILINE))
    assert list(rows) == [one.__name__ for one in get_args(AnyRecord)]
    for one in get_args(AnyRecord):
        names = {field.name for field in dataclasses.fields(one)} - {"seq", "at", "frame"}
        if "and where it goes" in rows[one.__name__]:
            names -= {"next", "ends", "closes", "reason"}
        assert set(re.findall(r"`(\w+)`", rows[one.__name__])) == names
