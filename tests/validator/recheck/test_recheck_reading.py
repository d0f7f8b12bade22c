"""The second checker's own reading of a program, held against that of the language which it must not import."""

from __future__ import annotations

import ast
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

import pytest

from modules import modules
from paths import ROOT
from sizes import asked_for, size
from small_programs import small_program
from stepward.sabotage.drawn.wide import wide_program
from stepward.validator.recheck.claims import Property, watcher
from stepward.validator.recheck.names import Source
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Unreadable
from stepward.validator.recheck.search import is_ruled_out
from stepward.validator.recheck.selectors import branch_of, matches
from stepward.validator.recheck.types import covers, fits, has_default, words
from stepward.validator.recheck.walking import explored
from stepward.vm import Policy, Program
from stepward.vm.errors import DocumentError
from stepward.vm.expressions.syntax import Defined, Reference, walk
from stepward.vm.expressions.template import embedded
from stepward.vm.language import names as language_names
from stepward.vm.language import node, policy
from stepward.vm.language.guardrails import BranchSelector, EffectSelector, StepSelector, ToolSelector
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.selectors import matches as language_matches
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.values import freeze

SEEDS = asked_for("STEPWARD_READINGS", 30, 150)
EXAMPLES = sorted(path for path in (ROOT / "specs/programs").rglob("*.yaml"))


# -- independence ------------------------------------------------------------------------------------------------------

SHARED: dict[str, set[str] | None] = {
    "stepward.vm.errors": None,
    "stepward.vm.values": None,
    "stepward.vm.expressions.building": {"built", "expression", "is_computed"},
    "stepward.vm.expressions.fields": {"index_of", "names_in", "written"},
    "stepward.vm.expressions.letters": {"WHITE_SPACE", "lower", "upper"},
    "stepward.vm.expressions.operators": {"Comparison", "FunctionName"},
    "stepward.vm.expressions.syntax": None,
    "stepward.vm.expressions.parser": {"parse"},
    "stepward.vm.expressions.template": {"embedded", "lone_reference"},
    "stepward.vm.language.guardrails": {
        *("AllOf", "AnyGuard", "AnyOf", "AnyRequirement", "AnyRule", "AnySelector", "AtMostOnce", "BranchSelector"),
        *("EffectSelector", "Exclusive", "FollowedBy", "Never", "Requires", "StepSelector", "ToolSelector"),
    },
    "stepward.vm.language.layout": {"Body", "Layout"},
    "stepward.vm.language.manifest": {"ToolSpec"},
    "stepward.vm.language.policy": {"Policy"},
    "stepward.vm.language.program": {"Program"},
    "stepward.vm.language.steps": None,
    "stepward.vm.language.types": {"TypeSpec"},
    "stepward.vm.patterns.charsets": {"Ranges"},
    "stepward.vm.patterns.syntax": {
        *("Anchor", "Chars", "Choice", "Node", "Opaque", "PatternError", "Repeat", "Sequence", "parse"),
    },
}
"""What the second checker shares with the engine and the machine: what a program is. None stands for a whole module."""

READING = {"to_data", "from_dict", "source_name", "text", "layout"}
"""What of the methods of parsed parts only says what was written."""


def test_the_second_checker_shares_only_what_a_program_is() -> None:
    for path in modules("validator/recheck"):
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            assert not any(name.startswith("stepward") for name in names), path
            if not isinstance(statement, ast.ImportFrom) or not (statement.module or "").startswith("stepward"):
                continue
            module = statement.module or ""
            if module.startswith("stepward.validator.recheck."):
                continue
            assert module in SHARED, f"{path.name} imports {module}"
            known = SHARED[module]
            assert known is None or {alias.name for alias in statement.names} <= known, f"{path.name}: {module}"


def test_the_second_checker_asks_parsed_parts_for_nothing_that_follows_from_them() -> None:
    models = [node.Node, policy.Policy, Program, TypeSpec, *_subclasses(node.Node)]
    derived = {
        name
        for model in models
        for name, value in vars(model).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod))
    } - READING
    assert {"kinds", "admits", "has_default", "writes_once", "applies"} <= derived
    for path in modules("validator/recheck"):
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.Attribute) and part.attr in derived and not _is_own(part):
                raise AssertionError(f"{path.name}:{part.lineno} asks for `{part.attr}`")


def _is_own(part: ast.Attribute) -> bool:
    """Whether an attribute is one of the checker itself."""
    return isinstance(part.value, ast.Name) and part.value.id == "self"


def _subclasses(of: type) -> list[type]:
    return [one for each in of.__subclasses__() for one in (each, *_subclasses(each))]


# -- the same program -------------------------------------------------------------------------------------------------


def without_types(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program of which some declarations are gone, so that types are inferred."""
    data = deepcopy(data)
    for name in list(data.get("inputs") or {}):
        if chance.random() < 0.5:
            data["inputs"][name] = {}
    if chance.random() < 0.3:
        data.pop("inputs", None)
    for tool in (data.get("tools") or {}).values():
        if chance.random() < 0.5:
            tool.pop("returns", None)
    for step in data["steps"]:
        if chance.random() < 0.3:
            step.pop("returns", None)
    return data


def readings() -> list[tuple[Reading, Meaning]]:
    found: list[tuple[Reading, Meaning]] = []
    programs: list[tuple[Program, list[Policy]]] = []
    for path in EXAMPLES:
        try:
            programs.append((Program.load(path), []))
        except DocumentError:
            continue
    for seed in range(SEEDS):
        chance = Random(seed)
        wide, policies, _ = wide_program(str(seed))
        for data, rules in ((small_program(seed), []), (wide, policies)):
            for one in (data, without_types(data, chance)):
                try:
                    programs.append((Program.from_dict(one), [Policy.from_dict(each) for each in rules]))
                except DocumentError:
                    continue
    for program, rules in programs:
        found.append((Reading(program, rules), Meaning(program, rules)))
    return found


@pytest.fixture(scope="module")
def both() -> list[tuple[Reading, Meaning]]:
    return readings()


def test_control_goes_where_the_language_says(both: list[tuple[Reading, Meaning]]) -> None:
    count = 0
    for reading, meaning in both:
        is_lost = meaning.flow.has_missing_target or bool(meaning.flow.ambiguous_arms)
        try:
            control = reading.control
        except Unreadable:
            assert is_lost
            continue
        assert not is_lost
        for own, given in zip(control.transitions, meaning.flow.transitions, strict=True):
            known = {(one.kind, one.to, one.ending and one.ending.status, one.branch, one.errors) for one in given}
            assert {(one.kind, one.to, one.status or one.closes, one.branch, one.errors) for one in own} == known
            count += 1
        for number, step in enumerate(reading.steps):
            if isinstance(step, ConditionStep):
                names = step.branch_names
                assert {name: branch_of(step, name) for name in names} == names, number
                assert branch_of(step, "no such branch") is None
    assert count > SEEDS * 10


def _asked(reading: Reading) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = {("unknown",), ("unknown", "output")}
    for number, step in enumerate(reading.steps):
        for tree in reading.expressions(number):
            for one in walk(tree) if tree is not None else ():
                if isinstance(one, Reference):
                    found.add(one.names)
                elif isinstance(one, Defined):
                    found.add(one.reference.names)
        found |= {(step.id, "output"), (step.id, "error", "text"), (step.id,)}
    for hit in reading.calls:
        for value in vars(hit.part).values():
            found |= {one.reference.names for one in embedded(value)} if isinstance(value, str | dict) else set()
    return found


def _source(one: language_names.Source) -> Source:
    return Source(one.kind, one.name, -1 if one.step is None else one.step, one.sub)


def test_names_speak_of_what_the_language_says(both: list[tuple[Reading, Meaning]]) -> None:
    for reading, meaning in both:
        for names in _asked(reading):
            own, given = reading.lookup.resolve(names), meaning.names.meaning(names)
            assert (own is None) == (given is None), names
            if own is not None and given is not None:
                assert own.fields == given.fields
                assert own.root + own.fields == names
                assert set(own.sources) == {_source(one) for one in given.sources}


def test_selectors_and_tools_are_what_the_language_says(both: list[tuple[Reading, Meaning]]) -> None:
    for reading, meaning in both:
        if meaning.flow.has_missing_target or meaning.flow.ambiguous_arms:
            continue
        tools = {*(meaning.manifest), "unknown", *(hit.part.tool for hit in reading.tool_calls)}  # type: ignore[attr-defined]
        ids = {hit.part.id for hit in reading.parts} | {"unknown"}
        selectors = [ToolSelector(tool=tool) for tool in tools] + [EffectSelector(effect="write")]
        selectors += [StepSelector(step=one) for one in ids]  # type: ignore[misc]
        for step in reading.steps:
            if isinstance(step, ConditionStep):
                selectors += [BranchSelector(step=step.id, branch=one) for one in [*step.branch_names, "none"]]  # type: ignore[misc]
        for selector in selectors:
            assert [tuple(one) for one in matches(selector, reading)] == [
                tuple(one) for one in language_matches(selector, meaning)
            ]
        for tool in tools:
            own, given = reading.tool(tool), meaning.tool(tool)
            assert (own.effect, own.idempotent, own.suspends) == (given.effect, given.idempotent, given.suspends)
            assert (own.args, own.returns) == (given.args, given.returns)
            assert reading.must_not_repeat(tool) == given.writes_once
            for spec in (own.args or {}).values():
                assert has_default(spec) == spec.has_default


OPERANDS = (
    "$a",
    "$b",
    "$c",
    "$o.x",
    "$o.y",
    "$t",
    "$r",
    "$got",
    "$got.n",
    "1",
    "'k'",
    "true",
    "null",
    "['k']",
    "[1]",
    "len($a)",
)
OPERATORS = ("==", "!=", "<", ">=", "in", "not in", "contains", "starts_with", "ends_with")


def asking(seed: int) -> Program:
    """Return a program whose undeclared names are used at random, also in ways that contradict one another."""
    chance = Random(seed)

    def term(depth: int = 1) -> str:
        one, other = chance.choice(OPERANDS), chance.choice(OPERANDS)
        if depth and chance.random() < 0.3:
            return f"({term(0)} {chance.choice(['and', 'or'])} {term(0)})"
        if chance.random() < 0.15:
            return f"defined({one})" if one[0] == "$" else f"not {other}"
        return f"{one} {chance.choice(OPERATORS)} {other}" if chance.random() < 0.8 else f"{one} + {other} > 2"

    values = [*(f"{term()}" for _ in range(2)), *chance.sample(OPERANDS, 2), [1], ["k"], 5, {"x": 1}]
    spec = [
        {},
        {},
        {"type": "array"},
        {"type": ["string", "null"]},
        {"minimum": 2},
        {"properties": {"x": {"type": "number"}}},
    ]
    data = {
        "inputs": {name: chance.choice(spec) for name in ("a", "b", "c", "o", "t")},
        "tools": {"get": {"effect": "read"}},
        "steps": [
            {"id": "get", "type": "tool", "tool": "get", "output_key": "got"},
            {"id": "one", "type": "set", "set": {"r": chance.choice(values), "s": chance.choice(values)}},
            {"id": "two", "type": "set", "set": {"r": chance.choice(values)}},
            {"id": "if", "type": "condition", "condition": term(), "then": "last", "otherwise": "last"},
            {"id": "last", "type": "end"},
        ],
    }
    try:
        return Program.from_dict(data)
    except DocumentError:
        return asking(seed + 1_000_000)


def compared(reading: Reading, meaning: Meaning) -> tuple[int, int]:
    """Hold the types of two readings against one another; return how many are inferred, and how many alike."""
    inferred = alike = 0
    sources = [one for each in meaning.names.variables.values() for one in each] + [*meaning.names.outputs.values()]
    for source in (one for one in sources if one.kind != "set"):
        own, given = reading.boundary.spec(_source(source)), meaning.typing.effective(source)
        if own is not None:
            assert given is not None, source
            assert covers(own, given), (source, own, given)
        if given is not None and given != meaning.typing.root_spec(source):
            inferred += 1
            alike += own == given
    return inferred, alike


def test_no_type_is_narrower_than_what_the_machine_enforces(both: list[tuple[Reading, Meaning]]) -> None:
    """A proof may take a type for wider than it is, and never for narrower."""
    found = [compared(reading, meaning) for reading, meaning in both]
    inferred, alike = (sum(one) for one in zip(*found, strict=True))
    assert inferred > SEEDS
    assert alike > inferred * 0.85, f"{alike} of {inferred} types are inferred alike"


def test_uses_at_random_never_make_a_type_narrower_than_the_machine_does() -> None:
    inferred = 0
    for seed in range(SEEDS * 10):
        program = asking(seed)
        inferred += compared(Reading(program), Meaning(program))[0]
    assert inferred > SEEDS * 10


# -- types ------------------------------------------------------------------------------------------------------------

VALUES: list[Any] = [
    *(None, True, False, 0, 1, 5, -3, 1.5, 100, "", "a", "ab", "abc", "b1", "xyz", "1", "é"),
    *([], [1], ["a"], [1, "a"], [[1]], [None], {}, {"a": 1}, {"a": "x"}, {"a": 1, "b": 2}, {"b": "x"}, {"a": {"b": 1}}),
]
PATTERNS = ["^a", "^b", "a", "[0-9]", "^a$", "x|y"]


def random_type(chance: Random, depth: int = 2) -> TypeSpec:
    data: dict[str, Any] = {}
    kinds = ["boolean", "integer", "number", "string", "null", *(["array", "object"] if depth else [])]
    if chance.random() < 0.9:
        data["type"] = chance.sample(kinds, chance.choice([1, 1, 1, 2]))
    for word, some in (("minimum", [0, 1, 1.5, 5]), ("maximum", [1, 2.5, 5, 100]), ("maxLength", [0, 1, 2, 5])):
        if chance.random() < 0.25:
            data[word] = chance.choice(some)
    if chance.random() < 0.3:
        data["pattern"] = chance.choice(PATTERNS)
    if chance.random() < 0.15:
        data["enum"] = chance.sample(VALUES, 3)
    if depth and chance.random() < 0.4:
        data["items"] = random_type(chance, depth - 1).to_data()
    if depth and chance.random() < 0.5:
        data["properties"] = {
            name: random_type(chance, depth - 1).to_data() for name in chance.sample(["a", "b"], chance.choice([1, 2]))
        }
    if chance.random() < 0.3:
        data["required"] = chance.sample(["a", "b"], 1)
    if depth and chance.random() < 0.3:
        data["additionalProperties"] = chance.choice([True, False, random_type(chance, 0).to_data()])
    try:
        return TypeSpec.model_validate(data)
    except ValueError:
        return random_type(chance, depth)


def narrower(spec: TypeSpec, chance: Random) -> TypeSpec:
    """Return a type that differs from another in one word: few pairs by chance alone imply one another."""
    data, other = spec.to_data(), random_type(chance).to_data()
    word = chance.choice([*data, *other] or ["type"])
    data.pop(word, None)
    if word in other:
        data[word] = other[word]
    try:
        return TypeSpec.model_validate(data)
    except ValueError:
        return spec


def test_a_value_is_of_a_type_as_the_machine_has_it() -> None:
    chance = Random(7)
    for _ in range(size(250, 2_000)):
        spec = random_type(chance)
        assert words(spec) == spec.kinds
        for value in map(freeze, VALUES):
            assert fits(value, spec) == (refusal(value, spec) is None), (value, spec)


PAIRS = size(400, 6_000)
"""The pairs of types of which no implication may be wrong."""


@cache
def pairs(count: int) -> list[tuple[TypeSpec, TypeSpec]]:
    """Return pairs of types, many of which differ in one word only."""
    chance, found = Random(11), []
    for _ in range(count):
        narrow = random_type(chance)
        found.append((narrow, narrower(narrow, chance) if chance.random() < 0.7 else random_type(chance)))
    return found


def contradiction(implies: Any, rounds: int) -> tuple[TypeSpec, TypeSpec, Any] | int:
    """Return types of which one is said to imply the other, and a value of the first alone; or how many pairs did."""
    implied = 0
    values = list(map(freeze, VALUES))
    for narrow, wide in pairs(rounds):
        if not implies(narrow, wide):
            continue
        implied += narrow != wide
        for value in values:
            if refusal(value, narrow) is None and refusal(value, wide) is not None:
                return narrow, wide, value
    return implied


def test_what_implies_a_type_has_only_values_of_it() -> None:
    from stepward.vm.language.types import implies

    found = contradiction(implies, PAIRS)
    assert isinstance(found, int), found
    assert found > PAIRS / 30
    own = contradiction(lambda narrow, wide: covers(wide, narrow), PAIRS)
    assert isinstance(own, int), own
    assert own >= found, "the second checker sees less than the engine: it would refuse right proofs"


def test_the_property_of_implications_can_fail() -> None:
    """The mistake that any pattern implies any other is found, and so is each bound that is not looked at."""
    from stepward.vm.language.types import implies

    for word in ("pattern", "max_length", "minimum", "maximum", "items", "properties", "required"):

        def careless(narrow: TypeSpec, wide: TypeSpec, word: str = word) -> bool:
            empty = () if word == "required" else None
            return implies(narrow, wide.model_copy(update={word: empty}))

        assert not isinstance(contradiction(careless, PAIRS), int), word


def careless_patterns(narrow: TypeSpec, wide: TypeSpec) -> bool:
    from stepward.vm.language.types import implies

    if narrow.pattern is not None and wide.pattern is not None:
        wide = wide.model_copy(update={"pattern": narrow.pattern})
    return implies(narrow, wide)


def test_any_pattern_does_not_imply_any_other() -> None:
    assert not isinstance(contradiction(careless_patterns, PAIRS), int)


@pytest.mark.parametrize(
    ("inputs", "first", "more", "when", "is_proved"),
    [
        ("mode", {"w": "$mode"}, {}, "$mode != $w", True),
        ("mode", {"w": "$mode"}, {}, "not ($w == $mode or false)", True),
        ("mode", {"w": "$mode"}, {"mode": "'b'"}, "$mode != $w", False),
        ("mode", {"w": "$mode"}, {"w": "'b'"}, "$mode != $w", False),
        ("args", {"w": "$args"}, {}, "$args != $w", False),
        ("mode", {"args": "$mode"}, {}, "$args != $mode", False),
    ],
)
def test_a_copy_of_an_input_is_equal_to_it_if_nothing_else_is_ever_given_to_either(
    inputs: str, first: dict[str, Any], more: dict[str, Any], when: str, *, is_proved: bool
) -> None:
    steps = [{"id": "copy", "type": "set", "set": first}]
    steps += [{"id": "more", "type": "set", "set": more}] if more else []
    data = {
        "name": "copies",
        "inputs": {inputs: {"type": "string"}},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "same", "never": {"step": "pay"}, "when": when}],
        "steps": [*steps, {"id": "pay", "type": "tool", "tool": "pay"}],
    }
    reading = Reading(Program.from_dict(data))
    watched = watcher(Property("never", "same", None, number=1), reading)
    places = explored(reading, watched, is_blind=True)
    assert is_ruled_out(reading, watched, places, is_wide=True) is is_proved
