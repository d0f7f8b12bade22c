"""Tables of texts and values in places: each odd text in each place of a program that runs, and in built values;
aliases and other limits of documents at the last one that fits; and what the type of a name follows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from stepward.sabotage.invariants import Breach
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.recorded.shared.inline import finished
from stepward.vm import ExecutionVM, ModelReply, ToolContext
from stepward.vm.errors import DocumentError, StepwardError
from stepward.vm.expressions import building, template
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.fields import part
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.program import Program
from stepward.vm.language.typecheck import check_expression
from stepward.vm.machine.models import ANY_NAME, ModelRequest
from stepward.vm.reading.files import read_text
from stepward.vm.reading.limits import MAX_ALIASED_NODES, MAX_DEPTH, MAX_NUMBER
from stepward.vm.values import as_text, freeze, to_json

Row = tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]

TEXTS: Final = (
    *("", " ", "a", "$a", "$a.b", "$$", "$$a", "$", "a$", "$a$$", "$$$a", "\\", "\\\\", "\\$a", "a\\", "\\n", "\n\t"),
    *(
        "it's",
        "''",
        '"',
        "{$a}",
        "$a $a",
        "<$a.b>",
        "$$$$",
        "é\U0001f600",
        "null",
        "1.50",
        "true",
        "'$a'",
        "\\'",
        "$a\\",
    ),
)
NESTED: Final = {"z": {"b": 1, "a": {"d": [{"y": 1, "x": 2}], "c": None}}, "b": "B$$\\", "a": [{"2": 0, "1": 0}]}
GIVEN: Final[tuple[Any, ...]] = (
    *(NESTED, {"b": NESTED, "a": 0}, [NESTED, []], {"b": ["x", {"é": 1, "e": "\n", "E": '"'}]}, {"b": {}}, {"b": []}),
    *(
        0,
        -1,
        Decimal("1.50"),
        Decimal("-0.0"),
        Decimal("0.1"),
        10**20,
        Decimal("1E-7"),
        True,
        None,
        "",
        "$a",
        "$$",
        "\\n",
    ),
)
WRAPPED: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda one: one,
    lambda one: [one],
    lambda one: {"k": one},
    lambda one: {"z": one, "a": [one, {"y": 1, "b": one}], "$a": {"k": 0}},
    lambda one: [[], {}, [one, [one, "plain"]], {"k": "$a"}, None, Decimal("1.50")],
    lambda one: {"x": {"k": {"k": one}}, "y": ["c", {"d": "$$"}]},
    lambda one: {"x": f"<{one}>", "y": {"z": f"{one} $a.b", "a": f"$$ {one}"}},
)
TYPED: Final[dict[str, Any]] = {
    "n": {"type": "number"},
    "m": {"type": ["number", "null"]},
    "s": {"type": "string"},
    "l": {"type": "array", "items": {"type": ["string", "null"]}},
    "o": {
        "type": "object",
        "properties": {"k": {"type": ["integer", "null"]}, "f": {"type": "string"}},
        "required": ["k"],
    },
}
SOURCES: Final[tuple[Any, ...]] = (
    *(
        "$u",
        "$u.k",
        "$t.output",
        "$t.output.n",
        "$t.output.m",
        "$t.output.l",
        "$t.output.o",
        "$t.output.o.f",
        "$r.output",
    ),
    *(["$u", 1], {"k": "$u", "j": "x"}, "$u + 1", "'x'", "null", 0, {"k": {"k": "$t.output.m"}}, "-$u", "len($u) == 1"),
)
USES: Final = (
    *("$v > 1", "$v == 'a'", "$v == $w", "$v in ['a', null]", "len($v) > 0", "$v starts_with 'a'", "$v.k == 1"),
    *(
        "$v.k > 1",
        "$v[0] > 1",
        "$v != null and $v > 1",
        "defined($v.k)",
        "$v + $w == 3",
        "$v contains 1",
        "$v.k.k == 'a'",
    ),
    *("matches($v, 'a')", "$v == $t.output.m", "not $v", "$v or $w", "$w in $v", "$v == null or len($v) == 0"),
)


def rows() -> Iterator[Row]:
    """Yield the rows of the tables."""
    yield from (("built", _built, (number,)) for number in range(len(TEXTS)))
    yield from (("place", _placed, (number, 0)) for number in range(len(TEXTS)))
    yield from (("value", _placed, (at, number)) for at in (3, 22) for number in range(1, len(GIVEN)))
    yield from (("written", _written, (number,)) for number in range(len(GIVEN)))
    yield from (("limit", _limited, (name,)) for name in DOCUMENTS)
    yield from (("inferred", _inferred, (number,)) for number in range(len(SOURCES)))


def _tried(ask: Callable[..., Any], *args: Any) -> Any:
    try:
        return ask(*args)
    except Breach:
        raise
    except DocumentError as error:
        return [(one.code, one.message, one.place.text()) for one in error.problems]
    except StepwardError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return type(error).__name__


# -- texts -------------------------------------------------------------------------------------------------------------


def _lookup(value: Any) -> Callable[[tuple[str, ...]], Any]:
    def lookup(names: tuple[str, ...]) -> Any:
        found = value
        for name in names[1:]:
            found = part(found, name, None)
        return found

    return lookup


def _built(number: int) -> Iterator[Any]:
    for wrap in WRAPPED:
        value = freeze(wrap(TEXTS[number]))
        yield value, [building.is_computed(value, language) for language in (1, 2)], list(building.pieces(value))
        tree = _tried(building.expression, value, 2)
        yield tree, _tried(building.expression, value, 1)
    if isinstance(tree, str):
        return
        for names in GIVEN[::3]:
            lookup = _lookup(freeze(names))
            yield _tried(template.fill, value, lookup), _tried(evaluate, tree, lookup)


def _written(number: int) -> Iterator[Any]:
    for wrap in WRAPPED[:-1]:
        value = freeze(wrap(GIVEN[number]))
        yield as_text(value), to_json(value), to_json(value, 2), template.fill("<$a>", _lookup(value))


class _World(EveryTool):
    """Tools and a model that say what they were asked."""

    names = ANY_NAME
    parameters: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def call(self, name: str, args: Mapping[str, Any], _: ToolContext) -> Any:
        """Return what a tool was asked."""
        self.asked.append((name, args))
        return args.get("p")

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Reply to a request."""
        self.asked.append((request.prompt, request.system))
        return ModelReply("well", 1, 0)


def _program(text: Any, value: Any) -> dict[str, Any]:
    """Return a program that has a text in each place."""
    inner = {
        **{"name": "inner", "language": 2},
        "inputs": {"i": {}, "j": {}, "d": {"default": text}, "e": {"default": {"k": [text]}}, "f": {"default": value}},
        "steps": [
            {"id": "in", "type": "tool", "tool": "in", "args": {"p": "$i", "q": ["$j", "$d", "$e"], "r": f"{text}|$f"}},
            {"id": "out", "type": "end", "output": {"d": "$d", "t": text, "p": "$in.output"}},
        ],
    }
    alone = [text] if len(template.parts(text)) > 1 else text  # no argument of a call is a text with references in it
    one = {"type": "tool", "tool": "one", "args": {"p": text, "q": {"k": [text, "$a"]}}}
    steps: list[dict[str, Any]] = [
        {
            "id": "s",
            "type": "set",
            "set": {"v": [text, "$a"], "w": {"k": text, "l": {"k": f"{text}|$a"}}, "c": [value]},
        },
        {"id": "one", **one},
        {"id": "both", "type": "parallel", "parallel_steps": [{"id": "p1", **one}, {"id": "p2", **one, "tool": "two"}]},
        {"id": "c", "type": "call", "program": "inner", "args": {"i": alone, "j": {"k": [text]}}},
        {"id": "c2", "type": "call", "program": "inner", "args": {"i": "$a", "j": value, "d": alone, "f": "$v"}},
        {
            **{"id": "each", "type": "for_each", "items": "$v", "as": "it", "max_items": 3},
            "steps": [
                {"id": "do", "type": "tool", "tool": "do", "args": {"p": "$it", "q": text}},
                {"id": "done", "type": "end", "output": ["$it", text]},
            ],
        },
        {"id": "m", "type": "llm", "prompt": f"{text} $w {text}", "system": text},
        {
            "id": "end",
            "type": "end",
            "output": {"v": "$v", "w": "$w", "each": "$each.output", "c": "$c2.output", "t": text},
        },
    ]
    data = {"name": "places", "language": 2, "inputs": {"a": {"default": value}}, "programs": {"inner": inner}}
    return {**data, "steps": steps}


def _placed(number: int, value: int) -> Iterator[Any]:
    world, text = _World(), TEXTS[number]
    found = _tried(Program.from_dict, _program(text, GIVEN[value]))
    if not isinstance(found, Program):
        yield found
        return
    yield found.to_data()
    machine = ExecutionVM(world, world, journal=MemoryJournal(), checker=None)
    run = _tried(lambda: finished(machine.run(found, {})))
    yield from world.asked
    yield run if isinstance(run, str | list) else (run.status, run.reason, run.output, run.error)


# -- limits of documents -----------------------------------------------------------------------------------------------


def _aliases(size: int, count: int, more: str = "") -> str:
    """Return a text with so many aliases of a list, which is so many nodes."""
    return f"a: &a [{'x, ' * (size - 1)}]\nb: [{'*a, ' * count}]\n{more}"


def _doubled(levels: int, pattern: str = "[*a, *a]") -> str:
    lines = [f"k{one}: &k{one} {pattern.replace('*a', f'*k{one - 1}')}" for one in range(1, levels)]
    return "\n".join(["k0: &k0 [x]", *lines])


_SIZE: Final = 500
_FULL: Final = MAX_ALIASED_NODES // _SIZE
DOCUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "aliases": (_aliases(_SIZE, _FULL), _aliases(_SIZE, _FULL, "c: &c 1\nd: *c"), _aliases(_SIZE, _FULL + 1)),
    "of texts": ("a: &a x\nb: [*a, *a]\nc: {d: *a}", "a: &a x\na: &a y\nb: *a", "- &a 1\n- &b [*a]\n- [*b, *a]"),
    "within": tuple(map(_doubled, (3, 14, 15, 16, 17, 40))),
    "of objects": tuple(_doubled(levels, "{x: *a, y: *a}") for levels in (3, 13, 14, 15, 16, 17)),
    "in one": tuple(_doubled(levels, "[*a, [*a]]") for levels in (3, 13, 14, 15, 16)),
    "one after another": tuple(_doubled(levels, "[*a]") for levels in (3, 98, 99, 100, 101, 102, 450)),
    "of two documents": (f"{_aliases(_SIZE, _FULL)}\n---\n{_aliases(_SIZE, _FULL)}", "a: &a 1\n---\nb: *a"),
    "of itself": ("a: &a [*a]", "&a {b: *a}", "a: &a {b: &a 1, c: *a}", "a: [&a 1, *a, &a 2, *a]"),
    "keys": ("&a k: *a", "? &a k\n: 1\nb: *a", "a: &a k\n*a : 1", "a: &a {b: 1}\n<<: *a\nb: 2", "'<<': 1", "'<<': {}"),
    "flow": tuple("a: " + "[" * depth + "]" * depth for depth in (MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, 150)),
    "objects": tuple('{"a": ' * depth + "1" + "}" * depth for depth in (MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1)),
    "numbers": tuple(f'{{"a": {sign}{"1" * size}}}' for sign in ("", "-", "1.", "0.") for size in (999, 1000, 1001)),
    "zeros": tuple(f'{{"a": 1.{"0" * size}}}' for size in (MAX_NUMBER - 3, MAX_NUMBER - 2, MAX_NUMBER - 1)),
}  # fmt: skip


def _limited(name: str) -> Iterator[Any]:
    for text in DOCUMENTS[name]:
        for is_json in (False, True)[: 1 + text.startswith("{")]:
            found = _tried(lambda text=text, is_json=is_json: read_text("it", text, is_json=is_json))
            if isinstance(found, list) and found and hasattr(found[0], "data"):
                yield [(len(one.data), _depth(one.data), [each.message for each in one.problems]) for one in found]
                yield [one.data for one in found] if len(text) < 60 else len(text)
            else:
                yield found


def _depth(value: Any) -> int:
    """Return how deep the first part of a value goes."""
    depth = 0
    while isinstance(value, dict | list) and value and depth < 500:
        value = list(value.values())[-1] if isinstance(value, dict) else value[-1]
        depth += 1
    return depth


# -- types -------------------------------------------------------------------------------------------------------------


def _inferred(number: int) -> Iterator[Any]:
    returns = {"type": "object", "properties": TYPED, "required": list(TYPED)}
    for use in USES:
        steps: list[dict[str, Any]] = [
            {"id": "t", "type": "tool", "tool": "t"},
            {"id": "r", "type": "tool", "tool": "r"},
            {"id": "s", "type": "set", "set": {"v": SOURCES[number], "w": "$x"}},
            {"id": "c", "type": "condition", "condition": use, "then": "e", "otherwise": "e"},
            {"id": "e", "type": "end", "output": ["$v", "$w"]},
        ]
        data = {"name": "p", "language": 2, "inputs": {"u": {}, "x": {}}, "tools": {"t": {"returns": returns}, "r": {}}}
        yield use, _tried(_typed, {**data, "steps": steps})


def _typed(data: dict[str, Any]) -> Any:
    meaning = Meaning(Program.from_dict(data))
    typing, found = meaning.typing, []
    names = meaning.names
    for source in [one for many in names.variables.values() for one in many] + list(names.outputs.values()):
        spec, effective = typing.root_spec(source), typing.effective(source)
        found.append((source.name, spec and spec.to_data(), effective and effective.to_data()))
    for clause in meaning.clauses:
        if clause.tree is not None:
            is_condition = clause.is_condition
            found.append(_tried(lambda: check_expression(clause.text, clause.tree, meaning, is_condition=is_condition)))  # type: ignore[arg-type] # noqa: B023
    return found, list(typing.conflicts)
