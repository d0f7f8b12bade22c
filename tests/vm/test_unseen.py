"""Fast: which characters nobody sees, over all of Unicode; joiners and selectors where they are spelling."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from sizes import by_day
from stepward.vm.machine.authority import is_name
from stepward.vm.unseen import unseen

IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]
"""Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt."""

SPELLED = {
    "Persian": "می\u200cخواهم",
    "Hindi": "क्\u200dष क्\u200cष",
    "a family": "👨\u200d👩\u200d👧",
    "a rainbow flag": "🏳\ufe0f\u200d🌈",
    "a skin": "👩🏽\u200d💻",
    "a heart": "I ❤\ufe0f it",
    "a keycap": "press 1\ufe0f\u20e3",
    "lines and tabs": "a\n\tb",
    "spaces": "1\u00a0000\u2007km\u3000.",
}
HIDDEN = {
    "a joiner between Latin letters": "a\u200db",
    "a joiner at the start": "\u200dم",
    "a joiner at the end": "م\u200d",
    "a letter of Malayalam that has a code of its own today": "ന്\u200d മ",
    "two joiners": "م\u200c\u200cم",
    "a joiner between Persian and Latin": "م\u200ca",
    "a joiner behind a selector of nothing": "a\ufe0f\u200d🌈",
    "a non-joiner in an emoji": "👨\u200c👩",
    "a selector behind a letter": "a\ufe0f",
    "two selectors": "❤\ufe0f\ufe0f",
    "another selector": "❤\ufe0e",
    "a keycap without its key": "1\ufe0f",
    "a flag made of tags": "🏴\U000e0067\U000e0062\U000e007f",
}


EMPTY = [*range(0x40000, 0xE0000), *range(0xF0000, sys.maxunicode + 1)]
"""Planes without characters, and those for private use: their codes are alike."""


def test_each_character_is_judged_by_its_properties() -> None:
    """By day one in sixteen of the planes without characters."""
    ignorable = set(IGNORABLE)
    for code in (*range(0x40000), *range(0xE0000, 0xF0000), *by_day(EMPTY, 16)):
        character = chr(code)
        is_unseen = code in ignorable or code == 0x2800
        is_unseen |= unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
        expected = character if is_unseen and character not in "\n\t" else None
        assert unseen(f"a{character}b") == expected, f"U+{code:04X}"


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
def test_what_a_language_needs_is_spelling(text: str) -> None:
    assert unseen(text) is None


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_elsewhere_it_hides(text: str) -> None:
    assert unseen(text) is not None


@pytest.mark.parametrize("code", [*IGNORABLE[:40], 0xFE0F, 0xFFA0, 0xE0041, 0x2800], ids=hex)
def test_no_name_has_a_character_that_nobody_sees(code: int) -> None:
    assert not is_name(f"ann{chr(code)}")
    assert is_name("ann")
