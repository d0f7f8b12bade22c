"""The language reference: every example in it is run, and its tables are held against the models of the code.

The tag of a fenced block says how it is run; a block with an unknown tag fails. `policy=NAME` in a tag names a
`yaml policy` block of the same page, under which the program is checked.
"""

from __future__ import annotations

import datetime
import json
import re
import string
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final

import pytest

from page_examples import (
    BLOCKS,
    PAGES,
    SPECS,
    Block,
    documents,
    lines_of,
    read_value,
    split_example,
    tagged,
)
from stepward.validator.findings import Report
from stepward.validator.rules.registry import RULE_BY_CODE
from stepward.validator.validator import validate_document
from stepward.vm.errors import EvaluationError, ExpressionError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.lexer import tokens
from stepward.vm.expressions.operators import FUNCTION_WORDS, FUNCTIONS, KEYWORDS, OPERATORS, POWERS
from stepward.vm.expressions.parser import MAX_NESTING, parse
from stepward.vm.expressions.template import fill
from stepward.vm.language import guardrails, policy, steps
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.node import Node
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.record import Record
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.reading import limits
from stepward.vm.reading.yaml_format import read_yaml
from stepward.vm.values import MAX_DEPTH, MAX_DIGITS, freeze, to_json

REFERENCE: Final = PAGES["language.md"].read_text(encoding="utf-8")
PROSE: Final = re.sub(r"^```.*?^```$", "", REFERENCE, flags=re.MULTILINE | re.DOTALL)
"""The reference without its fenced blocks."""

TODAY: Final = datetime.date(2026, 1, 1)


# -- the shape of the pages -----------------------------------------------------------------------------------------


def test_every_block_has_a_tag_that_the_test_knows() -> None:
    fences = sum(path.read_text(encoding="utf-8").count("\n```") for path in PAGES.values())
    assert fences == 2 * len(BLOCKS), "a fence is not closed, or not at the start of its line"
    for block in BLOCKS:
        assert block.tag in ("yaml", "condition", "interpolation", "type", "grammar", "text"), block.name
        if block.tag == "yaml":
            assert set(block.options) <= {"program", "policy", "error", "warning"}, block.name
            assert set(block.options) & {"program", "policy", "error", "warning"}, block.name


def test_there_are_many_examples_and_few_that_are_not_run() -> None:
    run = [block for block in BLOCKS if block.tag == "yaml"]
    lines = [line for block in BLOCKS if block.tag == "condition" for line in block.text.splitlines()]
    assert len(run) >= 35
    assert len(lines) >= 40
    assert sum(block.tag == "text" for block in BLOCKS) <= 3


def test_every_code_that_the_pages_name_exists() -> None:
    for path in PAGES.values():
        assert set(re.findall(r"\bSW\d+\b", path.read_text(encoding="utf-8"))) <= set(RULE_BY_CODE)


def test_links_inside_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", REFERENCE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", REFERENCE)) <= anchors
    for target in re.findall(r"\]\((?!#)([^)]+)\)", REFERENCE):
        assert (SPECS / target).exists(), target


# -- programs and policies ------------------------------------------------------------------------------------------


def as_policy(block: Block) -> Policy:
    (document,) = documents(block)
    return Policy._build(document.data, document)


def policies_of(block: Block) -> list[Policy]:
    wanted = block.options.get("policy")
    candidates = [other for other in BLOCKS if other.page == block.page and other.rest == ("policy",)]
    found = [loaded for loaded in map(as_policy, candidates) if loaded.policy == wanted]
    assert wanted is None or found, f"{block.name}: no policy `{wanted}` on the page"
    return found


def reports(block: Block) -> list[Report]:
    policies = policies_of(block)
    found = [validate_document(document, policies, today=TODAY) for document in documents(block)]
    assert found, "a block holds at least one document"
    return found


@tagged("yaml")
def test_yaml_example(block: Block) -> None:
    if block.rest == ("policy",):
        as_policy(block)
        return
    found = [finding for report in reports(block) for finding in report.findings]
    shown = [(one.code, one.message) for one in found]
    errors = {one.code for one in found if one.severity == "error"}
    warnings = {one.code for one in found if one.severity == "warning"}
    if "error" in block.options:
        assert errors == set(block.options["error"].split(",")), shown
    else:
        assert not errors, shown
        assert warnings == set(block.options.get("warning", "").split(",")) - {""}, shown


def test_the_policies_of_the_folder_load_and_are_listed() -> None:
    folder = SPECS / "policies"
    files = sorted(path.name for path in folder.glob("*.yaml"))
    assert [Policy.load(folder / name).policy for name in files] == [name.removesuffix(".yaml") for name in files]
    assert set(re.findall(r"\]\((\S+\.yaml)\)", PAGES["policies/README.md"].read_text(encoding="utf-8"))) == set(files)


@pytest.mark.parametrize(
    ("block", "name", "expected"),
    [
        pytest.param(block, name, expected, id=f"{block.name}-{name}")
        for block in BLOCKS
        for name, expected in re.findall(r"^# infers \$(\S+): (.*)$", block.text, re.MULTILINE)
    ],
)
def test_what_an_example_says_of_inferred_types(block: Block, name: str, expected: str) -> None:
    (document,) = documents(block)
    meaning = Meaning(Program.from_document(document))
    meant = meaning.names.meaning(tuple(name.split(".")))
    assert meant is not None
    (source,) = meant.sources
    found = meaning.typing.effective(source)
    for field in meant.fields:
        assert found is not None
        found = (found.properties or {})[field]
    data = None if found is None else json.loads(to_json(found.to_data()))
    assert data == (None if expected == "nothing" else json.loads(expected))


# -- one-line examples ----------------------------------------------------------------------------------------------


def same_value(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


@lines_of("condition")
def test_condition(line: str) -> None:
    text, expected, lookup = split_example(line)
    if expected == "syntax error" or expected.startswith("write "):
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert expected == "syntax error" or caught.value.rewrite == expected.removeprefix("write ")
    elif expected == "error":
        tree = parse(text, 2)
        with pytest.raises(EvaluationError):
            evaluate(tree, lookup)
    else:
        assert same_value(evaluate(parse(text, 2), lookup), read_value(expected)[0])


@lines_of("interpolation")
def test_interpolation(line: str) -> None:
    text, expected, lookup = split_example(line)
    if expected == "error":
        with pytest.raises(UndefinedReferenceError):
            fill(text, lookup)
    else:
        assert same_value(fill(text, lookup), read_value(expected)[0])


@lines_of("type")
def test_type(line: str) -> None:
    match = re.fullmatch(r"(\{.*\}) (accepts|refuses) (.*)", line)
    assert match is not None, line
    (document,) = read_yaml("type", match[1])
    spec = TypeSpec.model_validate(document.data)
    for value in freeze(json.loads(f"[{match[3]}]", parse_float=Decimal)):
        assert (refusal(value, spec) is None) is (match[2] == "accepts"), value


# -- the grammar and the limits -------------------------------------------------------------------------------------


def grammar() -> str:
    (block,) = (block for block in BLOCKS if block.tag == "grammar")
    return re.sub(r"\?[^?]*\?", "", block.text)


def is_sign(text: str) -> bool:
    try:
        read = tokens(text)
    except ExpressionError:
        return False
    return [token.kind for token in read] == ["sign", "end"]


def test_the_grammar_has_the_terminals_of_the_lexer() -> None:
    terminals = set(re.findall(r'"([^"]+)"', grammar()))
    signs = {"".join(pair) for size in (1, 2) for pair in product(string.punctuation, repeat=size)}
    words = {terminal for terminal in terminals if terminal[0].isalpha()}
    assert words == KEYWORDS
    assert terminals - words == {sign for sign in signs if is_sign(sign)}


def words_of(title: str, header: str) -> set[str]:
    return {text.partition("(")[0] for row in rows(title, header) for text in re.findall(r"`([^`]+)`", row[0])}


def test_the_table_of_operators_has_every_one() -> None:
    known = {*OPERATORS, *POWERS, *FUNCTION_WORDS, "not"}
    assert not known ^ words_of("Conditions and expressions", "operator")


def test_the_table_of_inference_has_every_operator_that_says_something_of_a_type() -> None:
    says = {*OPERATORS, *POWERS, *FUNCTIONS, "not"} - {"not in", "not contains"}
    assert not says - words_of("Inference", "use")


def test_every_name_of_the_grammar_is_defined_once_and_used() -> None:
    defined = re.findall(r"^(\w+)\s*=", grammar(), re.MULTILINE)
    used = set(re.findall(r"\w+", re.sub(r'"[^"]*"|^\w+\s*=', "", grammar(), flags=re.MULTILINE)))
    assert len(defined) == len(set(defined))
    assert set(defined) - {"expression"} <= used <= set(defined)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("bytes of one file", limits.MAX_BYTES),
        ("in a document", limits.MAX_DEPTH),
        ("in one value", MAX_DEPTH),
        ("aliases", limits.MAX_ALIASED_NODES),
        ("characters of one number in the text", limits.MAX_NUMBER),
        ("digits", MAX_DIGITS),
        ("steps of a program", limits.MAX_STEPS),
        ("built in code", limits.MAX_VALUES),
        ("in one expression", MAX_NESTING),
    ],
)
def test_limit(words: str, limit: int) -> None:
    (row,) = (row for row in rows("Documents and limits") if words in row[0])
    assert row[1].split()[0] == f"{limit:,}"


# -- the tables of fields -------------------------------------------------------------------------------------------


def section(title: str) -> str:
    match = re.search(rf"^#+ {re.escape(title)}$\n(.*?)(?=^#+ |\Z)", PROSE, re.MULTILINE | re.DOTALL)
    assert match is not None, f"no section `{title}`"
    return match[1]


def rows(title: str, header: str | None = None) -> list[list[str]]:
    """Return the cells of the tables of a section; with `header`, of the one whose first column is called so."""
    result: list[list[str]] = []
    for table in re.findall(r"(?:^ *\|.*\n)+", section(title), re.MULTILINE):
        cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in table.splitlines()]
        if header is None or cells[0][0] == header:
            result.extend(cells[2:])
    assert result, f"no such table in `{title}`"
    return result


def in_ticks(cell: str) -> list[str]:
    return re.findall(r"`(\w+)[^`]*`", cell)


def fields(model: type[Node | Record]) -> set[str]:
    if issubclass(model, Record):
        return set(model.fields())
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(
    ("title", "header", "model"),
    [
        ("The program", "field", Program),
        ("The program", "field of a tool", ToolSpec),
        ("Types", "field of a type", TypeSpec),
        ("Policies", "field of a policy", Policy),
    ],
)
def test_a_table_lists_the_fields_of_its_model(title: str, header: str, model: type[Node]) -> None:
    named = [field for row in rows(title, header) for field in in_ticks(row[0])]
    assert len(named) == len(set(named))
    assert set(named) == fields(model)


def table_of_steps() -> dict[str, set[str]]:
    result: dict[str, set[str]] = {kind: set() for kind in (*steps.STEP_MODELS, "sub-steps")}
    for names, owners, *_ in rows("Steps", "field"):
        whose = list(result) if owners == "every step and sub-step" else in_ticks(owners)
        whose += ["sub-steps"] if owners.endswith("sub-steps") else []
        for owner in whose:
            result[owner].update(in_ticks(names))
    return result


@pytest.mark.parametrize("kind", steps.STEP_MODELS)
def test_the_table_of_steps_gives_a_step_type_its_fields(kind: str) -> None:
    assert table_of_steps()[kind] == fields(steps.STEP_MODELS[kind])


def test_the_page_lists_the_step_types_and_those_without_an_output() -> None:
    (row,) = (row for row in rows("Steps", "field") if row[0].startswith("`id`"))
    assert in_ticks(row[2]) == list(steps.STEP_MODELS)
    (sentence,) = re.findall(r"Steps of the types (.*) have no `\.output`", REFERENCE)
    assert in_ticks(sentence) == [
        kind for kind, model in steps.STEP_MODELS.items() if not vars(model).get("has_output", True)
    ]


@pytest.mark.parametrize("kind", steps.SUB_STEP_MODELS)
def test_the_table_of_steps_gives_a_sub_step_its_fields(kind: str) -> None:
    said = {"prompt", "system", "allowed_outputs", "returns", "cache", "model", "temperature", "max_output_tokens"}
    own = {"llm": said, "tool": {"tool", "args", "deadline_seconds"}}[kind]
    assert table_of_steps()["sub-steps"] | own == fields(steps.SUB_STEP_MODELS[kind])


@pytest.mark.parametrize("key", guardrails.RULE_MODELS)
def test_the_table_of_guardrails_names_the_fields_of_a_rule(key: str) -> None:
    (model,) = (model for model in guardrails.Rule.__subclasses__() if key in fields(model))
    (row,) = (row for row in rows("Guardrails") if in_ticks(row[0])[0] == key)
    assert set(in_ticks(row[0])) == fields(model) - {"name", "already"}  # the machine writes `already`


def models_of_the_language(root: type[Node | Record]) -> Iterator[type[Node | Record]]:
    for model in root.__subclasses__():
        yield model
        yield from models_of_the_language(model)


MODELS: Final = {model.__name__: model for root in (Node, Record) for model in models_of_the_language(root)}
del MODELS["Stage"], MODELS["BranchStep"]  # no document has them


def test_the_models_are_found() -> None:
    found = set(MODELS.values())
    assert {Program, steps.Case, guardrails.Sequence, policy.Waiver, policy.Allowed, TypeSpec, ToolSpec} <= found


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_field_is_mentioned(name: str) -> None:
    code = " ".join(re.findall(r"`[^`\n]+`", PROSE))
    assert fields(MODELS[name]) <= set(re.findall(r"\w+", code))
