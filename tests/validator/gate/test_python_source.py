"""Fast: programs in Python source, found and read without running it, with marks under the right characters."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepward.validator.cli import main
from stepward.validator.gate.python_source import MAX_LENGTH, read_python
from stepward.vm import ProgramError
from stepward.vm.reading.document import Document
from stepward.vm.reading.source import LineIndex, Place

LITERAL = '{"name": "p", "steps": [{"id": "a", "type": "end"}]}'


def read(text: str) -> list[Document]:
    return read_python("p.py", text)[0]


def names(text: str) -> list[str]:
    return [document.data["name"] for document in read(text)]


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(ProgramError) as caught:
        read_python("p.py", text)
    return caught.value.problems[0].code, caught.value.problems[0].message


def marked(text: str, place: Place, number: int = 0) -> str:
    """Return the stretch of the text that a place of a program is."""
    document = read(text)[number]
    span = document.locate([place])[place]
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    start, end = starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1
    assert LineIndex(text).span(start, end) == span
    return text[start:end]


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", ["Program.from_dict", "stepward.vm.Program.from_dict", "vm.Program.from_dict", "MyProgram.from_dict"]
)
def test_a_literal_call_is_a_program(call: str) -> None:
    assert names(f"x = {call}({LITERAL})") == ["p"]
    assert names(f"x = {call}(data={LITERAL})") == ["p"]


@pytest.mark.parametrize(
    "text",
    [
        f"Config.from_dict({LITERAL.replace('id', 'key')})",
        f"from_dict({LITERAL.replace('id', 'key')})",
        "Program.from_dict()",
        "Program.from_dict({'a': 1}, {'b': 2})",
        "x = {'steps': []}",
        "x = {'steps': [{'id': 'a'}]}",
        "x = {'steps': [{'id': 'a', 'type': 'end'}, 3]}",
        "x = {'steps': 'abc', 'id': 1}",
        "x = '''" + LITERAL + "'''",
        "# " + LITERAL,
    ],
)
def test_a_dict_that_only_resembles_a_program_is_none(text: str) -> None:
    assert read_python("p.py", text) == ([], ())


def test_a_call_needs_no_shape_to_be_a_program() -> None:
    (document,) = read("Program.from_dict({'stepz': 1})")
    assert document.data == {"stepz": 1}


def test_a_literal_of_the_shape_is_a_program_wherever_it_stands() -> None:
    assert names(f"def f():\n    return [{LITERAL}]\n\nclass C:\n    x: dict = {LITERAL}\n") == ["p", "p"]


def test_no_program_is_reported_twice_and_none_inside_another() -> None:
    inner = '{"steps": [{"id": "b", "type": "end"}]}'
    outer = LITERAL[:-1] + f', "extra": {inner}}}'
    assert names(f"x = Program.from_dict({outer})") == ["p"]
    assert names(f"x = {outer}") == ["p"]


def test_programs_come_in_the_order_of_the_text() -> None:
    texts = [LITERAL.replace('"p"', f'"{name}"') for name in "abc"]
    assert names(f"x = [{texts[0]}, Program.from_dict({texts[1]})]\ny = {texts[2]}") == ["a", "b", "c"]


@pytest.mark.parametrize(
    "part",
    ["name", "f'{x}'", "make()", "'a' + 'b'", "[*others]", "{**base}", "1 if x else 2", "{1, 2}", "-x", "{k: 1}"],
)
def test_what_is_not_literal_is_named_and_not_read(part: str) -> None:
    literal = LITERAL[:-1] + f', "extra": {part}}}'
    assert read_python("p.py", f"\nx = Program.from_dict({literal})") == ([], (2,))
    assert read_python("p.py", f"x = {literal}") == ([], (1,))


# -- constructors ------------------------------------------------------------------------------------------------------

BUILT = """
from nano_vm import Program, Step, StepType

p = Program(name="p", steps=[
    Step(id="a", type=StepType.TOOL, tool="pay", args={"n": 1}, on_error=OnError.RETRY),
    nano_vm.Step(id="b", type="end"),
])
"""


def test_a_constructor_with_literal_arguments_is_a_program() -> None:
    (document,) = read(BUILT)
    first = {"id": "a", "type": "tool", "tool": "pay", "args": {"n": 1}, "on_error": "retry"}
    assert document.data == {"name": "p", "steps": [first, {"id": "b", "type": "end"}]}
    assert marked(BUILT, Place(("steps", 0, "tool"))) == '"pay"'
    assert marked(BUILT, Place(("steps", 0, "tool"), key=True)) == "tool"
    assert marked(BUILT, Place(("steps", 1, "id"))) == '"b"'


@pytest.mark.parametrize(
    "steps",
    ["steps", "[*others]", "[Step(id=n, type='end')]", "[Step(**fields)]", "[Step(step)]", "[make(id='a')]",
     "[Step(id=f's{n}', type='end') for n in range(3)]", "[Step(id='a', type=Kind.TOOL)]", "build()"],
)  # fmt: skip
def test_a_constructor_that_is_not_literal_is_named_with_its_line(steps: str) -> None:
    assert read_python("p.py", f"\n\nx = Program(name='x', steps={steps})") == ([], (3,))


@pytest.mark.parametrize("call", ["Program(steps=3)", "TrainingProgram(steps=steps)", "Program('a')", "Plan(steps=[])"])
def test_another_constructor_is_no_program(call: str) -> None:
    assert read_python("p.py", f"x = {call}") == ([], ())


def test_a_fix_in_a_constructor_keeps_the_rest_of_the_code(tmp_path: Path) -> None:
    text = BUILT.replace('tool="pay"', 'tool="pay", next_step="bb"').replace('id="b"', 'id="b1"')
    file = tmp_path / "p.py"
    file.write_text(text)
    CliRunner().invoke(main, ["check", "--isolated", "--no-cache", "--fix", str(file)], catch_exceptions=False)
    assert file.read_text() in (text, text.replace('"bb"', '"b1"'))


# -- programs that are built from a value ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "Program.from_dict(data)",
        "Program.from_dict(data=data)",
        "stepward.vm.Program.from_dict(make())",
        "Program.from_dict(json.load(file))",
        "Program.from_dict(self.data)",
        "Program.from_dict(copy.deepcopy(base) | more)",
        "Program.from_yaml(text)",
        "Program.from_json('{}')",
        "Program.model_validate(data)",
        "Program(**data)",
    ],
)
def test_a_program_that_is_built_from_a_value_is_named_with_its_line(call: str) -> None:
    assert read_python("p.py", f"\np = {call}") == ([], (2,))
    assert read_python("p.py", f"def load(data):\n    return {call}") == ([], (2,))


def test_a_variable_that_holds_a_literal_is_read_and_not_named() -> None:
    calls = ("Program.from_dict(data)", "Program.from_dict(deepcopy(data))", "Program(**data)")
    for target, call in product(("data", "data: dict"), calls):
        documents, not_literal = read_python("p.py", f"{target} = {LITERAL}\np = {call}")
        assert ([document.data["name"] for document in documents], not_literal) == (["p"], ()), call


def test_a_literal_within_what_is_computed_is_read_and_not_named() -> None:
    (document,), not_literal = read_python("p.py", f"p = Program.from_dict(deepcopy({LITERAL}))")
    assert (document.data["name"], not_literal) == ("p", ())


@pytest.mark.parametrize(
    "call",
    ["Program.load(path)", "Plan.from_dict(data)", "TrainingProgram.from_dict(data)", "Program.from_dict()",
     "Order.model_validate(data)", "Program(path)", "from_dict(data)"],
)  # fmt: skip
def test_what_builds_no_program_from_a_value_is_not_named(call: str) -> None:
    assert read_python("p.py", f"p = {call}") == ([], ())


def test_the_programs_of_one_file_that_are_not_checked_are_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text("a = Program.from_dict(x)\nb = Program.from_dict(y)\nc = Program(**z)\n")
    Path("q.py").write_text("a = Program.from_dict(x)\n")
    result = CliRunner().invoke(main, ["check", "--isolated", "--no-cache", "."], catch_exceptions=False)
    assert result.stderr.splitlines()[:2] == [
        "warning: `p.py:1` and 2 more in this file are not checked: these programs are put together when the code "
        "runs; give each with `--object module:NAME`",
        "warning: `q.py:1` is not checked: this program is put together when the code runs; "
        "give it with `--object module:NAME`",
    ]
    assert result.exit_code == 3
    assert "nothing to check: what is in . is put together when the code runs" in result.stderr


def test_a_named_file_whose_program_is_built_from_a_variable_says_how_to_check_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flows.py").write_text(
        "from stepward.vm import Program\n\nsteps = [{'id': 'a', 'type': 'llm', 'prompt': 'x', 'next_step': 'gone'}]\n"
        "data = {'name': 'x', 'steps': steps}\nPROGRAM = Program.from_dict(data)\n"
    )
    result = CliRunner().invoke(main, ["check", "--isolated", "--no-cache", "flows.py"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "the program in line 5 is put together when it runs" in result.stdout
    assert "`stepward check --object module:NAME` checks what code makes" in result.stdout
    data = {"name": "x", "steps": [{"id": "a", "type": "llm", "prompt": "x", "next_step": "gone"}]}
    Path("flows.py").write_text(f"data = {data}\n")
    result = CliRunner().invoke(main, ["check", "--isolated", "--no-cache", "--object", "flows:data"])
    assert (result.exit_code, "SW101" in result.stdout) == (1, True)


# -- what is said ------------------------------------------------------------------------------------------------------


def test_an_unchecked_program_is_reported_with_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text("p = Program(name='x', steps=steps)\n" + BUILT)
    result = CliRunner().invoke(main, ["check", "--isolated", "--exit-zero", "."], catch_exceptions=False)
    assert "warning: `p.py:1` is not checked: this program is put together when the code runs" in result.stderr
    assert "(1 program in Python not checked)" in result.stdout


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("0x10", 16),
        ("0.1", Decimal("0.1")),
        ("-1.50", Decimal("-1.5")),
        ("1e3", Decimal(1000)),
        ("0.1000000000000000055", Decimal("0.1")),  # what the running code hands over
        ("True", True),
        ("None", None),
        ("'a' 'b'", "ab"),
        ("r'\\d'", "\\d"),
        ("('a', 1)", ("a", 1)),
        ("[]", []),
        ("{'a': {'b': []}}", {"a": {"b": []}}),
    ],
)
def test_literals_are_read_as_the_program_gets_them(source: str, value: object) -> None:
    (document,) = read(f"Program.from_dict({{'x': {source}}})")
    assert document.data == {"x": value}
    assert type(document.data["x"]) is type(value)


def test_an_infinite_float_stays_one_for_the_model_to_refuse() -> None:
    (document,) = read("Program.from_dict({'x': 1e999})")
    assert document.data == {"x": float("inf")}


def test_keys_are_looked_at() -> None:
    (document,) = read("Program.from_dict({'a': 1, 2: 0, 'a': 3})")
    assert document.data == {"a": 3, "2": 0}
    codes = [(problem.code, problem.message) for problem in document.problems]
    assert codes == [("SW002", "the key `2` is not text"), ("SW003", "the key `a` occurs twice in one dict")]
    spans = [(problem.span.column, problem.span.end_column) for problem in document.problems if problem.span]
    assert spans == [(28, 29), (34, 37)]


# -- places ------------------------------------------------------------------------------------------------------------

SOURCE = '''\
# ünïcödé 日本 before it
größe = "日本"; p = Program.from_dict({"name": "日本語", "steps": [
    {'id': 'a', "type": "condition", "condition": "$ä > 5 and $日本 < 3", "then": 'b',
     "note": """three
quotes""", "joined": "one " "two", "raw": r"\\d $x", "escaped": 'it\\'s \\u00e9 $x'},\r
\t{"id": "b", "type": "end", "id": "c"},
]})
'''


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place(("name",)), '"日本語"'),
        (Place(("name",), key=True), '"name"'),
        (Place(("steps", 0, "id")), "'a'"),
        (Place(("steps", 0, "condition"), within=(1, 2)), "ä"),
        (Place(("steps", 0, "condition"), within=(11, 14)), "$日本"),
        (Place(("steps", 0, "then"), within=(0, 1)), "b"),
        (Place(("steps", 0, "note")), '"""three'),
        (Place(("steps", 0, "note"), within=(2, 4)), '"""three'),
        (Place(("steps", 0, "joined"), within=(4, 6)), '"one " "two"'),
        (Place(("steps", 0, "raw"), within=(3, 5)), 'r"\\d $x"'),
        (Place(("steps", 0, "escaped"), within=(2, 3)), "\\'"),
        (Place(("steps", 0, "escaped"), within=(5, 6)), "\\u00e9"),
        (Place(("steps", 0, "escaped"), within=(7, 9)), "$x"),
        (Place(("steps", 1)), '{"id": "b", "type": "end", "id": "c"}'),
        (Place(("steps", 1, "id")), '"c"'),
        (Place(("steps", 1, "nowhere")), '{"id": "b", "type": "end", "id": "c"}'),
    ],
)
def test_places_are_the_characters_that_write_them(place: Place, expected: str) -> None:
    assert marked(SOURCE, place) == expected


def test_the_second_program_of_a_line_has_its_own_location() -> None:
    other = LITERAL.replace('"p"', '"q"')
    assert marked(f"x = {LITERAL}; y = {other}", Place(("name",)), number=1) == '"q"'


@pytest.mark.parametrize("value", [r"\012 $x", r"\N{BULLET} $x", r"\q $x", r"\ud83d\ude00 $x"])
def test_an_escape_that_only_python_knows_marks_the_whole_text(value: str) -> None:
    text = LITERAL.replace('"p"', f'"{value}"')
    assert marked(f"x = {text}", Place(("name",), within=(2, 4))) == f'"{value}"'


# -- what can't be read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (", "not readable as Python: "),
        ("x = '\x00'", "not readable as Python: "),
        ("x = " + "(" * 300 + ")" * 300, "not readable as Python: "),
        ("x = " + "-" * 100_000 + "1", "not readable as Python: "),
        ("x = " + "+".join(["a"] * 50_000), "not readable as Python: "),
        ("x = " + "a." * 50_000 + "b", "not readable as Python: "),
        ("x = " + "9" * 10_000, "not readable as Python: "),
    ],
    ids=["open", "nul", "brackets", "signs", "sum", "dots", "digits"],
)
def test_source_that_python_can_not_read_is_unreadable_and_no_crash(text: str, says: str) -> None:
    code, message = refused(text)
    assert code == "SW001"
    assert says in message


def test_a_literal_that_is_too_deep_is_too_large() -> None:
    code, message = refused("Program.from_dict({'a': " + "[" * 120 + "]" * 120 + "})")
    assert (code, message) == ("SW004", "nested deeper than 100 levels")


def test_source_over_the_limit_is_too_large() -> None:
    assert refused("#" * (MAX_LENGTH + 1))[0] == "SW004"


def test_odd_escapes_in_other_strings_warn_nobody(recwarn: pytest.WarningsRecorder) -> None:
    assert names(f"pattern = '\\d'\nx = {LITERAL}") == ["p"]
    assert not recwarn.list
