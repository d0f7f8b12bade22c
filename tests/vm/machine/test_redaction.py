"""Fast: what is sensitive is found in errors and requests however tools, clients and masks write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from machines import Bench, end, program, tool
from stepward.sabotage.drawn.spellings import BY_HALF, SPELLINGS
from stepward.vm import SQLiteJournal, Suspend
from stepward.vm.machine.redaction import MIN_LENGTH, quotes, redacted

MAIL, IBAN, SUM, SHORT = "ada@example.com", "DE89370400440532013000", "1234567.5", "42"


@pytest.mark.parametrize("secret", [MAIL, IBAN, "Grüße an Ömer", "a+b/c?d=e&f", "123456"])
def test_a_secret_is_found_in_every_spelling(secret: str) -> None:
    # Less than six characters of it are nothing that could be told from chance.
    for spelling in SPELLINGS.keys() - (BY_HALF if len(secret) == MIN_LENGTH else ()):
        said = redacted(SPELLINGS[spelling](secret), ["other secret", secret])
        assert "[sensitive]" in said, spelling
        assert not quotes(said, [secret]), spelling


@pytest.mark.parametrize(
    "said", ["1,234,567.50", "1'234'567.50", "1 234 567,5", "1.234.567,50", "1234567.500", "1234567"]
)
def test_a_number_is_found_with_separators_and_more_digits(said: str) -> None:
    assert "[sensitive]" in redacted(f"limit below {said}", [SUM])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "connection refused",
        "no such file: /tmp/example",
        "status 404",
        "DE and AT",
        "42 of 43",
        "a b c d e f",
        "[sensitive]",
    ],
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert redacted(text, [MAIL, IBAN, SUM, "12345", "xyz"]) == text


def test_a_short_value_is_looked_for_as_it_is_alone() -> None:
    assert redacted("got 42", [SHORT]) == "got [sensitive]"
    assert redacted("got AB-CD", ["abcd"]) == "got AB-CD"


def test_what_a_tool_asks_quotes_no_number_and_no_key(tmp_path: Path) -> None:
    inputs = {"salary": {"type": "integer", "sensitive": True}, "iban": {"type": "string", "sensitive": True}}
    asks = program(tool("q", "ask", args={"salary": "$salary", "iban": "$iban"}), end(), inputs=inputs)
    request = lambda salary, iban: Suspend(  # noqa: E731 - a tool of one line
        {
            "raise": salary,
            "share": [salary + 1, 7, True],
            "accounts": {iban: {iban.lower(): 1}},
            "hex": iban.encode().hex(),
        }
    )
    bench = Bench({"q": request}, journal=SQLiteJournal(tmp_path / "j.db"))
    run = bench.run(asks, "run", salary=98_765_432, iban=IBAN)
    assert run.suspensions[0].request == {
        "raise": "[sensitive]",
        "share": (98_765_433, 7, True),
        "accounts": {"[sensitive]": {"[sensitive]": 1}},
        "hex": "[sensitive]",
    }
    bench.vm.erase_sync("run")
    bench.journal.close()
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for form in (b"98765432,", IBAN.encode(), IBAN.lower().encode(), IBAN.encode().hex().encode()):
        assert form not in raw
