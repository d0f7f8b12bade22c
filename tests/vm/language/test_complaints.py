"""Fast: what is said of a program that has another shape than the language's: where it stands, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Policy, Program, ProgramError
from stepward.vm.errors import PolicyError, Problem
from stepward.vm.language.other_words import WORDS_FOR, renamed
from stepward.vm.reading.source import Correction, Place

END = {"id": "done", "type": "end"}


def refused(data: dict[str, Any]) -> list[Problem]:
    """Return what a program is refused for."""
    with pytest.raises(ProgramError) as error:
        Program.from_dict(data)
    assert {problem.code for problem in error.value.problems} == {"SW002"}
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("given", "help", "mended"),
    [
        ("conditon", "did you mean `condition`?", "condition"),
        ("lmm", "did you mean `llm`?", None),
        ("gadget", "use one of `llm`, `tool`", None),
        (5, "use one of `llm`, `tool`", None),
    ],
)
def test_a_wrong_step_type_is_said_at_the_value(given: Any, help: str, mended: str | None) -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": given}, END]})
    assert problem.place == Place(("steps", 0, "type"))
    assert problem.help.startswith(help)
    assert problem.correction == (mended and Correction(problem.place, mended))


def test_a_wrong_type_of_a_sub_step_is_said_at_the_value_and_a_missing_one_at_the_step() -> None:
    parts = [
        {"id": "a", "type": "toool", "tool": "t"},
        {"id": "b", "type": "end"},
        {"id": "c"},
        {"id": "d", "type": None},
    ]
    problems = refused({"name": "p", "steps": [{"id": "both", "type": "parallel", "parallel_steps": parts}]})
    inside = "steps[0].parallel_steps"
    assert [(problem.place.text(), problem.step) for problem in problems] == [
        (f"{inside}[0].type", "a"), (f"{inside}[1].type", "b"), (f"{inside}[2]", "c"), (f"{inside}[3]", "d")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "help"),
    [
        ([], "name both things of which a run does only one"),
        ([{"tool": "pay"}], "name both things of which a run does only one"),
        ([{"tool": "pay"}, {"step": "done"}, {"tool": "book"}], "write one rule for each pair of them"),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_rule_that_excludes_takes_two(pair: list[Any], help: str, kind: type) -> None:
    (problem,) = refused({"name": "p", "guardrails": [{"name": "r", "exclusive": kind(pair)}], "steps": [END]})
    assert problem.message == f"`exclusive` takes two selectors, not {len(pair)}"
    assert problem.help.startswith(help)
    assert problem.place.text() == "guardrails[0].exclusive"


@pytest.mark.parametrize(
    ("spec", "help"),
    [
        ({"minimum": 5, "maximum": 3}, "raise `maximum` to 5 or more, or lower `minimum` to 3 or less"),
        (
            {"type": "integer", "minimum": 2.5, "maximum": 2.75},
            "raise `maximum` to 3 or more, or lower `minimum` to 2 or less",
        ),
        ({"type": "string", "enum": [1, 2]}, "change the values of `enum`, or `type` beside it"),
        (
            {"type": "string", "enum": ["abc"], "maxLength": 2, "default": "a", "pattern": None},
            "change the values of `enum`, or `type` and `maxLength` beside it",
        ),
        (
            {"required": ["y"], "additionalProperties": False},
            "declare `y` in `properties`, or take it out of `required`",
        ),
        ({"type": []}, "name a type, or remove `type`: without it, any kind of value is allowed"),
        ({"pattern": "a("}, "write `)` after the group, or `\\(` for the sign itself"),
    ],
)
def test_of_a_type_that_cannot_be_it_is_said_what_to_change(spec: dict[str, Any], help: str) -> None:
    (problem,) = refused({"name": "p", "inputs": {"x": spec}, "steps": [END]})
    assert problem.help == help


@pytest.mark.parametrize(
    ("entries", "number", "help"),
    [
        (["pay", "pay"], 1, "remove one of the two"),
        (["pay", "get", {"tool": "pay", "when": "$args.n < 5"}], 2, "remove one of the two"),
        (
            [{"tool": "pay", "when": "$args.n < 5"}, {"tool": "pay", "when": "$x == 1"}],
            1,
            "remove it, and write `when: ($args.n < 5) or ($x == 1)` in the first",
        ),
    ],
)
def test_an_allow_list_names_a_tool_once(entries: list[Any], number: int, help: str) -> None:
    data = {"policy": "p", "allow": entries}
    with pytest.raises(PolicyError) as error:
        Policy.from_dict(data)
    (problem,) = error.value.problems
    assert (problem.code, problem.message) == ("SW002", "the list names tool `pay` twice")
    assert (problem.place, problem.help) == (Place(("allow", number)), help)
    assert len(Policy.from_record(data, None).allow or ()) == len(entries)


# -- words of other languages ------------------------------------------------------------------------------------------

STEPS: dict[str, dict[str, Any]] = {
    "llm": {"prompt": "Well?"},
    "tool": {"tool": "pay"},
    "condition": {"condition": "$a", "then": "done"},
    "parallel": {"parallel_steps": [{"id": "q", "type": "llm", "prompt": "Well?"}]},
    "for_each": {"items": "$l", "as": "x", "steps": [{"id": "q", "type": "end"}]},
    "call": {"program": "other"},
    "set": {"set": {"x": 1}},
    "end": {},
}


def help_for(kind: str, word: str, value: Any = "x", without: str = "") -> str:
    """Return the help for a step with another word, in place of its field `without`."""
    fields = {name: given for name, given in STEPS[kind].items() if name != without}
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": kind, **fields, word: value}, END]})
    assert f"`{word}`" in problem.message
    return problem.help


@pytest.mark.parametrize(
    ("kind", "field", "words"),
    [
        ("llm", "prompt", "message user_prompt text prompt_template template input"),
        ("tool", "tool", "function tool_name action call uses"),
        ("condition", "condition", "if when expression expr test"),
        ("parallel", "parallel_steps", "steps tasks children sub-steps"),
        ("set", "set", "values vars variables assign Assignments"),
        ("for_each", "items", "in over list collection foreach"),
        ("for_each", "as", "item item_var loop_variable"),
        ("call", "program", "workflow child file"),
    ],
)
def test_a_word_in_place_of_a_required_field_is_one_problem_that_names_the_field(
    kind: str, field: str, words: str
) -> None:
    for word in words.split():
        assert help_for(kind, word, without=field).startswith(f"did you mean `{field}`?"), word


@pytest.mark.parametrize(
    ("kind", "field", "words"),
    [
        ("llm", "system", "system_prompt instructions persona"),
        ("llm", "allowed_outputs", "choices options enum allowed_values values"),
        ("llm", "returns", "schema output_schema response_format json_schema"),
        ("llm", "output_key", "output save_as store_as result variable"),
        ("tool", "args", "params parameters arguments input inputs with kwargs"),
        ("tool", "output_key", "output outputs result_key"),
        ("tool", "error_step", "on_failure except error_handler"),
        ("tool", "max_retries", "max_attempts attempts"),
        ("tool", "timeout_seconds", "timeout timeout_s deadline"),
        ("tool", "fallback", "default default_value"),
        ("condition", "otherwise", "else default on_false if_false"),
        ("condition", "cases", "branches switch routes"),
        ("parallel", "max_concurrency", "concurrency max_parallel max_workers"),
        ("tool", "catch", "catchers handlers"),
        ("tool", "retry", "retry_policy retriers"),
        ("for_each", "index_as", "index index_var"),
        ("for_each", "max_items", "limit max_count"),
        ("for_each", "carry", "accumulator reduce"),
        ("set", "next_step", "next goto then to on_success"),
        ("set", "is_terminal", "terminal final end"),
        ("set", "max_visits", "max_iterations max_loops"),
        ("end", "outcome", "status result state"),
        ("end", "output", "return returns value output_key reason"),
    ],
)
def test_a_word_of_another_language_is_answered_with_the_field(kind: str, field: str, words: str) -> None:
    for word in words.split():
        assert help_for(kind, word).startswith(f"did you mean `{field}`?"), word


@pytest.mark.parametrize(
    ("kind", "word", "value", "help"),
    [
        ("end", "status", "failure", "did you mean `outcome`?"),
        ("end", "status", "failed", "did you mean `outcome`? `outcome` can't be `failed`; did you mean `failure`?"),
        ("end", "status", "gone", "did you mean `outcome`? `outcome` can't be `gone`; use `success` or `failure`"),
        ("tool", "timeout", 30, "did you mean `timeout_seconds`?"),
        ("tool", "timeout", "30s", "did you mean `timeout_seconds`? `timeout_seconds` must be a number, not text"),
        ("tool", "max_attempts", "3", "did you mean `max_retries`? `max_retries` must be a whole number, not text"),
    ],
)
def test_a_value_that_the_field_does_not_take_is_named_with_the_field(
    kind: str, word: str, value: Any, help: str
) -> None:
    assert help_for(kind, word, value) == help


NUMBERS = {
    "tool": "max_retries timeout_seconds max_visits",
    "llm": "temperature max_output_tokens",
    "for_each": "max_items max_concurrency",
    "parallel": "max_concurrency",
    "wait": "seconds",
}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in NUMBERS for field in NUMBERS[kind].split()])
def test_what_is_no_number_is_told_to_be_one_and_only_a_quoted_number_loses_its_quotes(kind: str, field: str) -> None:
    is_whole = field.startswith("max_")
    wanted = "a whole number" if is_whole else "a number"
    quoted = ["3", "-1"] + ["2.5"] * (not is_whole)
    others: list[Any] = [True, False, [1], {"a": 1}, "soon", "3 s", ""] + ([1.5, "2.5"] if is_whole else [])
    if kind == "wait":  # a text in `seconds` may be a reference
        quoted, others = [], [one for one in others if not isinstance(one, str)]
    for value in [*quoted, *others]:
        step = {"id": "a", "type": kind, field: value}
        problems = refused({"name": "p", "language": 2, "steps": [step]})
        helps = {one.message: one.help for one in problems if f"`{field}` must be {wanted}, not " in one.message}
        assert list(helps.values()) == ["write it without quotes" if value in quoted else f"write {wanted}"], value


@pytest.mark.parametrize("value", [[{"id": "b", "type": "tool", "tool": "t"}], [5]])
def test_a_list_under_another_name_is_not_said_to_be_none(value: Any) -> None:
    assert help_for("parallel", "substeps", value, without="parallel_steps") == "did you mean `parallel_steps`?"


def test_a_word_of_another_language_is_no_misspelling() -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": "tool", "tool": "pay", "timeout": "30s"}, END]})
    assert problem.correction is None  # and not `on_timeout`, which has similar letters


def test_steps_as_a_mapping_are_told_how_an_entry_begins() -> None:
    (problem,) = refused({"name": "p", "steps": {"look": {"type": "end"}}})
    assert problem.help == "begin each entry with `-`; `look` is the `id` of the first"


@pytest.mark.parametrize(
    ("rule", "where", "message", "help"),
    [
        ({"followed_by": {"first": {"tool": "a"}, "then": {"tool": "b"}, "ends": "any"}}, "followed_by",
         "`ends` does not belong into `followed_by`", "write it beside `followed_by`"),
        ({"followed_by": {"first": {"tool": "a"}, "then": {"tool": "b"}, "last": 1}}, "followed_by",
         "unknown field `last` in `followed_by`", "remove it; the fields here are `first` and `then`"),
        ({"never": {"tool": "a", "argument": 1}}, "never",
         "unknown field `argument` in `never`", "remove it; the fields here are `tool`"),
        ({"protects": {"tool": "a"}, "requires": {"any_of": [{"step": "x"}], "of": 1}}, "requires",
         "unknown field `of` in `requires`", "remove it; the fields here are `any_of`"),
        ({"protects": {"tool": "a"}, "requires": {"step": "x", "brunch": "then"}}, "requires",
         "unknown field `brunch` in `requires`", "did you mean `branch`?"),
    ],
)  # fmt: skip
def test_a_wrong_field_within_a_guardrail_is_answered_with_its_fields(
    rule: dict[str, Any], where: str, message: str, help: str
) -> None:
    (problem,) = refused({"name": "p", "guardrails": [{"name": "g", **rule}], "steps": [END]})
    assert (problem.message, problem.help) == (message, help)
    assert problem.place.path[2] == where


@pytest.mark.parametrize(
    ("kind", "word", "help"),
    [
        ("llm", "provider", "the machine gets its model"),
        ("tool", "if", "put a condition step before this step"),
        ("tool", "foreach", "a loop is a branch that names an earlier step"),
        ("tool", "retries", "write `on_error: retry` and `max_retries`, which is the total number of attempts"),
        ("tool", "backoff", "`ExecutionVM(retry_delay=...)`"),
        ("set", "description", "write a comment"),
        ("condition", "retries", "remove it; the fields here are"),
        ("end", "else_step", "remove it; the fields here are"),
    ],
)
def test_a_word_that_no_field_stands_for_is_answered_with_what_there_is(kind: str, word: str, help: str) -> None:
    assert help in help_for(kind, word)


@pytest.mark.parametrize("word", ["when", "if", "unless", "condition"])
@pytest.mark.parametrize(
    ("rule", "help"),
    [
        ({"protects": {"tool": "t"}, "requires": {"tool": "t"}}, "`requires: {any_of: [{step: CONDITION, branch: "),
        ({"at_most_once": {"tool": "t"}}, "remove it; select the step that runs under this condition"),
        ({"exclusive": [{"tool": "t"}, {"step": "a"}]}, "remove it; select the steps that run under this condition"),
        ({"followed_by": {"first": {"tool": "t"}, "then": {"step": "a"}}}, "`first: {step: ID}`"),
        ({"never": {"tool": "t"}}, ""),
    ],
)
def test_a_condition_of_a_rule_that_has_none_is_answered_with_what_there_is(
    rule: dict[str, Any], help: str, word: str
) -> None:
    """Without its condition a rule says something else, so its removal alone is no answer."""
    data = {"name": "p", "guardrails": [{"name": "g", **rule, word: "1 > 0"}], "steps": [END]}
    if "never" not in rule:
        (problem,) = refused(data)
        assert help in problem.help
    elif word == "unless":
        (problem,) = refused(data)
        assert problem.help == "remove it; write the opposite: `when: not (...)`"
    elif word != "when":
        (problem,) = refused(data)
        assert problem.help == "did you mean `when`?"


@pytest.mark.parametrize(
    ("word", "kind"),
    [("branches", "parallel"), ("map", "for_each"), ("foreach", "for_each"), ("workflow", "call"), ("pause", "wait")],
)
def test_a_word_for_a_type_of_step_is_answered_with_the_type(word: str, kind: str) -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": word}, END]})
    assert problem.help == f"did you mean `{kind}`?"


def test_every_word_of_the_table_is_answered_by_a_field_of_some_part() -> None:
    for field, words in WORDS_FOR.items():
        assert len(set(words.split())) == len(words.split()), field
        assert all(renamed(word, [field], ()) == field for word in words.split())
        assert field not in words.split()


def test_words_of_different_form_are_never_written_by_a_fix() -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": "set", "values": {"x": 1}}, END]})
    assert (problem.help, problem.correction) == ("did you mean `set`?", None)
    fields = {"id": "a", "type": "tool", "tool": "pay", "parameters": {}}
    (problem,) = refused({"name": "p", "steps": [fields, END]})
    assert problem.correction == Correction(Place(("steps", 0, "parameters"), key=True), "args")


@pytest.mark.parametrize(
    ("data", "help"),
    [
        ({"nodes": [END]}, "did you mean `steps`?"),
        ({"steps": [END], "rules": []}, "did you mean `guardrails`?"),
        ({"steps": [END], "variables": {}}, "did you mean `inputs`?"),
        ({"steps": [END], "start_at": "done"}, "remove it; a run starts at the first step of the list"),
        ({"steps": [END], "tools": {"t": {"parameters": {}}}}, "did you mean `args`?"),
        ({"steps": [END], "tools": {"t": {"output": {}}}}, "did you mean `returns`?"),
        ({"steps": [END], "tools": {"t": {"side_effects": True}}}, "did you mean `effect`?"),
        ({"steps": [END], "inputs": {"a": {"min": 1}}}, "did you mean `minimum`?"),
        ({"steps": [END], "inputs": {"a": {"choices": [1]}}}, "did you mean `enum`?"),
        ({"steps": [END], "inputs": {"a": {"secret": True}}}, "did you mean `sensitive`?"),
    ],
)
def test_words_of_other_parts_of_a_program(data: dict[str, Any], help: str) -> None:
    (problem,) = refused({"name": "p", **data})
    assert problem.help == help


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("agent", "llm"),
        ("task", "tool"),
        ("Switch", "condition"),
        ("fork", "parallel"),
        ("assign", "set"),
        ("stop", "end"),
    ],
)
def test_a_type_of_another_language_is_answered_with_a_type(word: str, kind: str) -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": word}, END]})
    assert (problem.help, problem.correction) == (f"did you mean `{kind}`?", None)


@pytest.mark.parametrize(
    ("text", "said"), [("", "is empty"), ("# later\n", "is empty"), ("policy: a\n---\npolicy: b\n", "not 2")]
)
def test_a_file_without_one_policy_is_refused_with_what_is_in_it(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.from_bytes(text.encode(), "p.yaml")
    assert error.value.problems[0].message.endswith(said)
