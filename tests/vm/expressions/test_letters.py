"""Case and white space of texts: the tables are those of one version of Unicode, whatever Python runs them."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from stepward.vm.expressions.letters import UNICODE, WHITE_SPACE, lower, trim, upper


def every() -> list[str]:
    """Return every character; a list of a million is for the tests that read it, not for each collection."""
    return [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", "", ""),
        ("aZ9_", "az9_", "AZ9_"),
        ("ÄÖß", "äöß", "ÄÖß"),
        ("İı", "iı", "İI"),
        ("ΟΔΟΣ", "οδοσ", "ΟΔΟΣ"),
        ("ǅ", "ǆ", "Ǆ"),
        ("ﬁ", "ﬁ", "ﬁ"),
        ("ᾀ", "ᾀ", "ᾈ"),
        ("\u2126\u212a", "ωk", "\u2126\u212a"),
        ("𐐀𐐨", "𐐨𐐨", "𐐀𐐀"),
    ],
)
def test_each_code_point_becomes_one(text: str, low: str, high: str) -> None:
    assert (lower(text), upper(text)) == (low, high)


def test_the_case_of_a_text_is_fixed_once_it_is_mapped() -> None:
    everything = "".join(every())
    assert lower(lower(everything)) == lower(everything)
    assert upper(upper(everything)) == upper(everything)
    assert len(lower(everything)) == len(upper(everything)) == len(everything)


@pytest.mark.skipif(unicodedata.unidata_version != UNICODE, reason="this Python has another version of Unicode")
def test_the_tables_are_those_of_unicode() -> None:
    for sign in every():
        full = sign.upper() if len(sign.upper()) == 1 else sign.title()
        assert upper(sign) == (full if len(full) == 1 else sign), hex(ord(sign))
        assert lower(sign) == (sign.lower()[0] if len(sign.lower()) == 1 or sign == "İ" else sign), hex(ord(sign))


def test_white_space_is_what_the_machine_strips_from_replies() -> None:
    assert sorted(WHITE_SPACE) == [sign for sign in every() if not sign.strip()]
    assert trim(f"{WHITE_SPACE}a b\u200b{WHITE_SPACE}") == "a b\u200b"
