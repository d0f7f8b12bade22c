"""Enumeration: characters that nobody sees in what a model proposes, and those that are spelling."""

from __future__ import annotations

from typing import Any

import pytest

from plans import planner
from stepward.vm import ScriptedModel


def proposed(text: str) -> Any:
    """Return what comes of a proposal whose output has a text."""
    reply = f'name: odd\ninputs: {{}}\nsteps: [{{id: done, type: end, output: "a{text}b"}}]'
    return planner(ScriptedModel({"propose": [reply]}), tries=1).plan_sync("Say something.", inputs={})


UNSEEN = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180E, 0x180F, 0x200B, 0x200C, 0x200D, 0x200E),
    *(0x202A, 0x202E, 0x2060, 0x2065, 0x2069, 0x206A, 0x206F, 0x2800, 0x3164, 0xE000, 0xFE00, 0xFE0F, 0xFFA0, 0xFFF9),
    *(0xFFFB, 0x1BCA0, 0x1D173, 0xE0001, 0xE0020, 0xE007F, 0xE0100, 0xE01EF),
]


@pytest.mark.parametrize("code", UNSEEN, ids=hex)
def test_a_character_that_nobody_sees_is_refused(code: int) -> None:
    found = proposed(f"\\U{code:08x}")
    assert found.program is None
    assert f"refused: the program has the character U+{code:04X}" in found.proposals[0].answer


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        *((one, one) for one in ("می\u200cخواهم", "👨\u200d👩\u200d👧", "I ❤\ufe0f it")),
        *((f"\\U{code:08x}", "\\") for code in (0x1, 0x1B, 0x85, 0x2028, 0x2029, 0xFEFF)),
    ],
    ids=ascii,
)
def test_what_is_spelling_or_an_escape_in_the_program_is_accepted(written: str, shown: str) -> None:
    found = proposed(written)
    assert found.program is not None, found.proposals[0].answer
    assert shown in found.text
