"""Fast: the gate refuses the programs that models write wrong, and the judge knows which are mended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "proposals"
sys.path.insert(0, str(FOLDER))

from judging import PROGRAMS, complaints  # type: ignore[import-not-found] # noqa: E402

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_the_gate_refuses_the_program_and_the_judge_accepts_what_a_model_made_of_it(name: str) -> None:
    assert next(complaints(PROGRAMS / f"{name}.yaml"), "").startswith("the gate refuses it: ")
    assert not list(complaints(FOLDER / "mended" / f"{name}.yaml"))


def test_the_judge_notices_a_program_that_pays_without_being_asked(tmp_path: Path) -> None:
    text = (FOLDER / "mended" / "01-else.yaml").read_text(encoding="utf-8")
    wrong = text.replace("$found.total <= 50", "$found.total <= 5000")
    (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
    assert any("it calls ['pay_back', 'send_mail'], and not" in line for line in complaints(tmp_path / "wrong.yaml"))
