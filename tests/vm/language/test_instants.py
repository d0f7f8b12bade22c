"""Texts of RFC 3339 and the times that they name."""

from __future__ import annotations

import pytest

from stepward.vm.language.instants import instant


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01.5z", 1_500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00-00:30", 0),
        ("1969-12-31T23:59:59Z", -1_000_000),
        ("2026-02-28T23:59:59.9999999Z", 1_772_323_200_000_000),
        ("2024-02-29T00:00:00-00:00", 1_709_164_800_000_000),
    ],
)
def test_a_text_names_a_time(text: str, due: int) -> None:
    assert instant(text) == due


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T23:59:60Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+00:60",
        "2026-01-01T00:00:00.Z",
        "0000-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "２026-01-01T00:00:00Z",
    ],
)
def test_any_other_text_names_none(text: str) -> None:
    assert instant(text) is None
