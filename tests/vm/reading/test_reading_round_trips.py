"""Any data that is written is read again, and any text is data or refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from readings import data_of, yaml_document
from sizes import size
from stepward.vm.errors import ProgramError
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.source import Place
from stepward.vm.reading.yaml_format import read_yaml
from stepward.vm.reading.yaml_writer import to_yaml
from stepward.vm.values import freeze, to_json
from strategies import json_values, texts


@given(json_values())
@settings(max_examples=size(100, 300), deadline=None)
def test_what_is_written_as_yaml_is_read_again(value: Any) -> None:
    text = to_yaml(value)
    document = yaml_document(text)
    assert document.problems == ()
    assert freeze(document.data) == freeze(value)
    assert to_json(freeze(document.data)) == to_json(freeze(value))


@given(json_values())
@settings(max_examples=size(80, 200), deadline=None)
def test_what_is_written_as_json_is_read_again_by_both_readers(value: Any) -> None:
    frozen = freeze(value)
    for indent in (0, 2):
        text = to_json(frozen, indent)
        assert to_json(freeze(read_json("test", text).data)) == to_json(frozen)


@pytest.mark.parametrize(
    "word",
    ["yes", "on", "1e3", "0o17", "0x1F", "1_000", "~", "null", "", " x ", "a: b", "# c", "-", "1" * 5_000, "é\u2028"],
)
def test_a_word_that_a_reader_could_take_for_something_else_stays_text(word: str) -> None:
    text = to_yaml({"k": word, word: "v"})
    assert data_of(text) == {"k": word, word: "v"}
    assert yaml.safe_load(text) == {"k": word, word: "v"}


@given(json_values(st.one_of(st.none(), st.booleans(), st.integers(), st.text("abc 1.5~\n:#", max_size=10))))
@settings(max_examples=size(60, 150), deadline=None)
def test_what_is_written_is_read_alike_by_a_yaml_1_1_reader(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@given(st.text(max_size=60))
@settings(max_examples=size(100, 300), deadline=None)
def test_arbitrary_text_is_data_or_a_program_error(text: str) -> None:
    for is_json in (False, True):
        try:
            documents = [read_json("test", text)] if is_json else read_yaml("test", text)
        except ProgramError:
            continue
        for document in documents:
            document.locate([Place(()), Place(("a",)), Place((0,), within=(0, 1))])


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                ": ",
                "- ",
                "[",
                "]",
                "{",
                "}",
                ", ",
                "&x ",
                "*x",
                "!!str ",
                "!t ",
                "? ",
                "\n",
                "  ",
                "'",
                '"',
                "|",
                ">",
                "#",
                "---\n",
                "<<",
                "1",
            ]
        ),
        max_size=20,
    )
)
@settings(max_examples=size(150, 500), deadline=None)
def test_arbitrary_rows_of_yaml_signs_are_data_or_a_program_error(signs: list[str]) -> None:
    try:
        documents = read_yaml("test", "".join(signs))
    except ProgramError as error:
        assert all(problem.code in ("SW001", "SW004") for problem in error.problems)  # noqa: PT017 - an oracle
        return
    for document in documents:
        places = [Place(path, within=(0, 1)) for path, _ in text_paths_of_anything(document.data)]
        assert set(document.locate(places)) == set(places)


def text_paths_of_anything(value: Any) -> list[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return [((key, *path), text) for key, item in entries for path, text in text_paths_of_anything(item)]
    return [((), value)] if isinstance(value, str) else []


@given(texts)
def test_any_text_survives_as_a_key_and_as_a_value(text: str) -> None:
    assert data_of(to_yaml({text: text})) == {text: text}
