"""The file of the callers: what it may say, and that no message shows a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateways import ENTRY
from stepward.validator.gateway.callers import Callers
from stepward.validator.result import AdvisedError

WRONG: dict[str, list[Any]] = {
    "a short token": [{**ENTRY, "token": "secret"}],
    "an unknown field": [{**ENTRY, "admin": True}],
    "a name that is a path": [{**ENTRY, "name": "../x"}],
    "one token for two": [ENTRY, {**ENTRY, "name": "b"}],
    "one name for two": [ENTRY, {**ENTRY, "token": "u" * 20}],
    "no mapping": ["secret" * 5],
}


@pytest.mark.parametrize("how", WRONG)
def test_callers_that_can_not_be_used_are_refused_without_their_tokens(how: str) -> None:
    with pytest.raises(AdvisedError) as refused:
        Callers.of(WRONG[how])
    assert not any(token in refused.value.message for token in ("t" * 16, "u" * 16, "secret"))


def test_a_caller_is_known_by_its_token_alone() -> None:
    callers = Callers.of([ENTRY])
    assert callers.of_token("t" * 20) is callers.by_name["model"]
    assert [callers.of_token(one) for one in ("", "t" * 19, "model", "\ud800")] == [None] * 4
    assert "t" * 16 not in repr(callers.by_name["model"])


TOKEN = "a-token-that-nobody-guesses"
FILES = {
    "": "is no mapping with one list",
    "- 1\n": "is no mapping with one list",
    f"callers: [{{name: a, token: {TOKEN}\n": "can't be read as YAML or JSON",
    f"callers: {{a: {TOKEN}}}\n": "is no mapping with one list",
    f"callers: [{{name: a, token: {TOKEN}}}]\nadmins: []\n": "is no mapping with one list",
    f"callers: [{{name: a, token: {TOKEN}}}]\n---\n{{}}\n": "is no mapping with one list",
    f"callers: [{{name: a, name: b, token: {TOKEN}}}]\n": "is no mapping with one list",
    f"callers: [{{name: a, token: [{TOKEN}]}}]\n": "`token`",
    f"callers: [{{name: a, token: {TOKEN}, tools: {TOKEN}}}]\n": "`tools`",
    f"callers: [{{name: a, token: {TOKEN}, {TOKEN}: 1}}]\n": "it has a field that is not known",
    f"callers: [{{name: a, token: {TOKEN}, effects: [{TOKEN}]}}]\n": "`effects.0`",
    "\x00": "can't be read as YAML or JSON",
}


@pytest.mark.parametrize("text", FILES)
def test_a_bad_file_of_callers_is_refused_in_words_without_a_token(tmp_path: Path, text: str) -> None:
    path = tmp_path / "callers.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AdvisedError) as refused:
        Callers.load(path)
    assert FILES[text] in refused.value.message
    assert TOKEN not in f"{refused.value.message}{refused.value.help}"


def test_a_file_of_callers_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(AdvisedError, match="can't be read: "):
            Callers.load(path)


def test_a_good_file_of_callers_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "callers.yaml").write_text(f"callers:\n  - {{name: a, token: {TOKEN}, tools: [pay]}}\n")
    caller = Callers.load(tmp_path / "callers.yaml").by_name["a"]
    assert (caller.tools, caller.effects, caller.tokens_per_hour) == (("pay",), ("none", "read"), 0)


@pytest.mark.parametrize(
    ("field", "words", "help"),
    [
        ("toolz", "`toolz` is no field of a caller", "did you mean `tools`? a caller has `name`"),
        ("admin", "`admin` is no field of a caller", "a caller has `name`"),
        ("tokens_per_hours", "it has a field that is not known", "did you mean `tokens_per_hour`? "),
        (TOKEN, "it has a field that is not known", "a caller has `name`"),
    ],
)
def test_a_field_that_is_not_known_is_named_if_it_can_be_no_token(field: str, words: str, help: str) -> None:
    with pytest.raises(AdvisedError) as refused:
        Callers.of([{**ENTRY, field: 1}])
    assert refused.value.message == f"caller 1 in `callers`: {words}"
    assert refused.value.help.startswith(help)
