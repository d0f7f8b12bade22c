"""Fast: what is sensitive is found in errors and requests however tools, clients and masks write it."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from machines import Bench, end, program, tool
from stepward.sabotage.drawn.spellings import BY_HALF, SPELLINGS
from stepward.sabotage.reference.echoes import says
from stepward.vm import SQLiteJournal, Suspend
from stepward.vm.machine.redaction import MAX_BY_HALVES, MIN_LENGTH, Searched, Spellings, quotes, redacted

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
        "no such file: /tmp/exam",
        "status 404",
        "DE and AT",
        "42 of 43",
        "a b c d e f",
        "[sensitive]",
    ],
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert redacted(text, [MAIL, IBAN, SUM, "12345", "xyz"]) == text


VALUES = {
    **{IBAN: [0, 5, 11], MAIL: [0, 4, 7], "Straße 12 Aachen": [0, 4, 8], "1234567": [0, 1]},
    "groß und weiß, süß": range(10),
}


@pytest.mark.parametrize(("secret", "start"), [(secret, start) for secret in VALUES for start in VALUES[secret]])
def test_any_half_of_a_value_is_found_in_an_error(secret: str, start: int) -> None:
    half = max((len(secret) + 1) // 2, MIN_LENGTH)
    part = secret[start : start + half]
    assert len(part) == half
    for said in (part, part.upper(), f"x{part}y", ascii(part)):
        assert redacted(f"bad: {said}", [secret]) == "[sensitive]"
    # Without separators a value is shorter, and so is half of it.
    less = part[: (sum(map(str.isalnum, secret)) + 1) // 2 - 1]
    for said in (f"bad: {less}#", f"bad: {part[::-1]}"):
        assert redacted(said, [secret]) == said


@pytest.mark.parametrize("secret", [*VALUES, "ßßßßßßßß", "İstanbul"])
def test_half_of_a_value_beside_a_mask_is_half_of_its_own_characters(secret: str) -> None:
    searched, spelled = Searched(), Spellings.of(secret)
    assert spelled is not None
    searched.add(spelled)
    half = max((len(secret) + 1) // 2, MIN_LENGTH)
    for said in (f"{secret[:half]}...", f"...{secret[-half:]}", f"{secret[:half]}**", f"••{secret[-half:]}"):
        for text in (said, said.upper(), ascii(said)):
            assert searched.repeats(text)
            assert says(text, secret), "the reference has to find it, too"
    less = f"{secret[: (sum(map(str.isalnum, secret)) + 1) // 2 - 1]}..."
    assert not searched.repeats(less)
    assert not says(less, secret)


@pytest.mark.parametrize("length", [MAX_BY_HALVES // 2, 2 * MAX_BY_HALVES, 200_000])
def test_half_of_a_long_value_is_found_without_taking_long(length: int) -> None:
    before = time.process_time()
    secret = "".join(f"{number:x}-" for number in range(length))[:length]
    assert redacted(f"bad: {secret[length // 3 : length // 3 + (length + 1) // 2]}", [secret]) == "[sensitive]"
    assert redacted("a1b2" * 50_000, [secret]) == "a1b2" * 50_000
    assert redacted("a" * 500_000, ["a" * length + "b" + "a" * length]) == "[sensitive]"
    assert time.process_time() - before < 5


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


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n    "])
@pytest.mark.parametrize("width", [20, 64, 76])
def test_base64_over_several_lines_is_found(width: int, line_end: str) -> None:
    """Mail has it in lines of 76 characters, PEM in lines of 64."""
    whole = base64.b64encode(f"Invoice for Ann. Account holder IBAN: {IBAN}, due in 14 days.".encode()).decode()
    lines = line_end.join(whole[at : at + width] for at in range(0, len(whole), width))
    for text, is_there in ((f"Content:{line_end}{lines}", True), (f"{whole[:66]}. {whole[66:]}", False)):
        assert quotes(text, [IBAN]) is is_there
        assert says(text, IBAN) is is_there
