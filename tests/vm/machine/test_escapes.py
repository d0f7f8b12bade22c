r"""Fast: which escapes are read where a text is searched for sensitive values.

The tables have all escapes of JSON (RFC 8259, 7) and of Python ("String and Bytes literals").
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable

import pytest

from stepward.sabotage.reference.echoes import says
from stepward.vm.machine.escapes import readings
from stepward.vm.machine.redaction import Searched, Spellings, redacted

OF_JSON = {
    **{rf"\{one}": one for one in '"\\/'},
    **{r"\b": "\b", r"\f": "\f", r"\n": "\n", r"\r": "\r", r"\t": "\t"},
    **{r"\u00fc": "ü", r"\u00FC": "ü", r"\ud83d\ude00": "😀", r"\uD83D\uDE00": "😀"},
}
OF_PYTHON = {
    **{"\\\n": "", r"\\": "\\", r"\'": "'", r"\"": '"'},
    **{r"\a": "\a", r"\b": "\b", r"\f": "\f", r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\v": "\v"},
    **{r"\0": "\0", r"\7": "\7", r"\12": "\n", r"\374": "ü", r"\xfc": "ü", r"\xFC": "ü"},
    **{r"\u00fc": "ü", r"\U000000fc": "ü", r"\U0001f600": "😀"},
    **{r"\N{LATIN SMALL LETTER U WITH DIAERESIS}": "ü", r"\N{grinning face}": "😀"},
}
OF_BYTES = {r"\xc3\xbc": "ü", r"\303\274": "ü", r"\xf0\x9f\x98\x80": "😀", r"\xC3\xBC": "ü"}
OF_NONE = {r"\u00g0": "u00g0", r"\U11": "U11", r"\N{NO SUCH NAME}": r"\N{NO SUCH NAME}", r"\xg": "xg", r"\8": "8"}

TEXTS = {
    "an order": "PAT/2024/0012345",
    "a name": "Jürgen Müller-Lüdenscheidt",
    "quotes": 'Zoë "Zo" O\'Neil',
    "lines": "tab\there\r\nthere\x1b[0m",
    "a path": "C:\\Users\\new\\x41\\u00fc",
    "faces": "smile 😀 and ∑",
    "other letters": "日本語テキスト文字",
}
WRITERS: dict[str, Callable[[str], str]] = {
    "repr": repr,
    "ascii": ascii,
    "%a": lambda text: "%a" % {"ref": text},  # noqa: UP031 - it is this that is tried
    "unicode_escape": lambda text: text.encode("unicode_escape").decode(),
    "backslashreplace": lambda text: text.encode("ascii", "backslashreplace").decode(),
    "namereplace": lambda text: text.encode("ascii", "namereplace").decode(),
    "repr of bytes": lambda text: repr(text.encode()),
    "escape_encode": lambda text: codecs.escape_encode(text.encode())[0].decode(),  # type: ignore[attr-defined]
    "json": json.dumps,
    "json in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "json of PHP": lambda text: json.dumps({"ref": text}).replace("/", "\\/"),
    "json of PHP in UTF-8": lambda text: json.dumps(text, ensure_ascii=False).replace("/", "\\/"),
    "json in json": lambda text: json.dumps(json.dumps({"ref": text})),
    "json by repr": lambda text: repr(json.dumps(text)),
    "capitals of ascii": lambda text: ascii(text.upper()),
    "ascii in groups": lambda text: ascii(" ".join(text[at : at + 4] for at in range(0, len(text), 4))),
}


@pytest.mark.parametrize(("written", "meant"), [*OF_JSON.items(), *OF_PYTHON.items(), *OF_BYTES.items()])
def test_each_escape_is_read(written: str, meant: str) -> None:
    assert f"a{meant}z" in readings(f"a{written}z")


@pytest.mark.parametrize(("written", "meant"), OF_NONE.items())
def test_what_is_no_escape_stays(written: str, meant: str) -> None:
    assert set(readings(written)) == {written, meant} | set(readings(meant))


def test_a_text_without_escapes_has_one_reading() -> None:
    assert readings("paid to Jürgen, 42 / 7") == ("paid to Jürgen, 42 / 7",)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_value_is_found_as_each_writer_writes_it(writer: str, text: str) -> None:
    secret = TEXTS[text]
    said = f"refused: {WRITERS[writer](secret)}"
    searched, spelled = Searched(), Spellings.of(secret)
    assert spelled is not None
    searched.add(spelled)
    assert searched.repeats(said)
    assert says(said, secret), "the reference has to find it, too"
    cleaned = redacted(said, [secret])
    assert "[sensitive]" in cleaned
    assert not searched.repeats(cleaned)
    assert not searched.repeats(WRITERS[writer](secret[::-1]))


@pytest.mark.parametrize("text", ["an order", "a name", "other letters"])
@pytest.mark.parametrize("cut", ["…", "..."])
def test_the_start_of_an_escaped_value_before_a_cut_is_redacted(text: str, cut: str) -> None:
    said = WRITERS["repr of bytes"](TEXTS[text])[2:]
    for length in range(len(said) // 2, len(said)):
        assert redacted(f"bad: {said[:length]}{cut}", [TEXTS[text]]) == "[sensitive]" or said[:4] in TEXTS[text]


@pytest.mark.parametrize("name", ["ü/1", "a/b"])
def test_a_short_value_is_redacted_in_escapes_too(name: str) -> None:
    for writer in WRITERS.values():
        if writer not in (WRITERS["capitals of ascii"], WRITERS["ascii in groups"]):
            assert "[sensitive]" in redacted(f"refused: {writer(name)}", [name])
