"""Acts with what MCP servers list and answer: pins, proposed manifests, results, and the settings of servers."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.shared.context import Act, SceneContext, thing
from stepward.vm.language.types import TypeSpec
from stepward.vm.remote.pins import MOST, NO_PINS, Listed, Pin, Pins
from stepward.vm.remote.proposal import MAX_DEPTH, proposed, remarks, type_of
from stepward.vm.remote.results import MAX_SAID, json_argument, output_of, printable, text_of
from stepward.vm.remote.servers import HttpServer, StdioServer, require_name, require_url, variable

# -- pins --------------------------------------------------------------------------------------------------------------

_DESCRIPTIONS: Final = (None, "", "Pays a sum.", "Pays\na \x1b[31msum.", "d" * 500, "d" * 501, "é")
_SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "object"},
    {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    {"required": ["sum"], "properties": {"sum": {"type": "number"}}, "type": "object"},
    {"type": "object", "properties": {"idempotency_key": {"type": "string"}, "a": {"default": 1}, "b": {}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "integer", "maximum": 5}}},
    {"type": "object", "properties": ["a"], "required": "a"},
    {},
)
_HINTS: Final[tuple[dict[str, Any], ...]] = (
    *({}, {"readOnlyHint": True, "destructiveHint": False}, {"idempotentHint": True, "openWorldHint": 1, "title": "x"}),
)


def drawn_tool(chance: Random, name: str) -> Listed:
    """Return a tool of a list."""
    output = chance.choice((None, None, {"type": "string"}, *_SCHEMAS))
    return Listed(name, chance.choice(_DESCRIPTIONS), chance.choice(_SCHEMAS), output, chance.choice(_HINTS))


def pin_tools(context: SceneContext) -> None:
    """Pin tools, change them, and write and read files of pins."""
    chance = context.chance
    tools = [drawn_tool(chance, name) for name in chance.sample(("pay", "mail", "a", "é"), chance.choice((0, 1, 3)))]
    pins = Pins.of(tools)
    context.notes.add(pins.text(), hash(pins) == hash(Pins.of(reversed(tools))), pins == NO_PINS, len(NO_PINS.tools))
    for tool in tools:
        other = drawn_tool(chance, tool.name)
        changed = tool._replace(**{name: getattr(other, name) for name in chance.sample(Listed._fields[1:], 2)})
        context.notes.add(changed, Pin.of(changed), pins.tools[tool.name].changes(Pin.of(changed)))
    data: Any = json.loads(pins.text())
    for _ in range(4):
        part = chance.choice(("version", "tools", "more", "none", "parts", "text"))
        changed_data = json.loads(json.dumps(data))
        match part:
            case "version":
                changed_data["version"] = chance.choice((2, "1", None, True, 1.0))
            case "tools":
                changed_data["tools"] = chance.choice(
                    ([], None, {"a": {}}, {"a": []}, {"a": {**Pin("x", "y", "z")._asdict()}})
                )
            case "more":
                changed_data["more"] = 1
            case "none":
                del changed_data[chance.choice(("version", "tools"))]
            case "parts":
                row: dict[str, Any] = {**Pin("x", "y", "z")._asdict(), chance.choice(("description", "more")): 7}
                changed_data["tools"]["a"] = row
        text = (
            json.dumps(changed_data)
            if part != "text"
            else chance.choice(("", "{", "[]", "7", "null", "\udc80", "[" * 10**5))
        )
        file = context.file(text.encode("utf-8", "surrogateescape"))
        context.do(part, lambda file=file: Pins.load(file))
    context.do("nothing", lambda: Pins.load(context.folder / "nothing"))
    for size in (MOST, MOST + 1) if chance.random() < 0.1 else ():
        padded = context.file(pins.text().encode().ljust(size))
        context.do(size, lambda padded=padded: Pins.load(str(padded)))


# -- proposals ---------------------------------------------------------------------------------------------------------

_WORDS: Final = ("boolean", "integer", "number", "string", "array", "object", "null")


def drawn_schema(chance: Random, depth: int = 0) -> Any:
    """Return a schema of chance, which the language may not have."""
    if depth > 2 or chance.random() < 0.08:
        return chance.choice(
            ({}, True, None, {"type": "string"}, {"$ref": "#/$defs/a"}, {"$ref": "a"}, {"$ref": "#/x/y"})
        )
    at = chance.random()
    if at < 0.15:
        few = chance.choice(([{"type": "null"}], [], [{"type": "string", "enum": ["a"]}]))
        several = [drawn_schema(chance, depth + 1) for _ in range(chance.choice((0, 1, 2)))]
        more = chance.choice(({}, {"default": None}))
        return {chance.choice(("anyOf", "oneOf")): [*several, *few], **more}
    word: Any = chance.choice(_WORDS)
    data: dict[str, Any] = {
        "type": chance.choice((word, word, [word, "null"], [word], "odd", ["odd", word], 7, [word, 7]))
    }
    numbers: dict[str, tuple[Any, ...]] = {
        "minimum": (0, 1.5, "x"),
        "maximum": (10, -1),
        "enum": ([1, 2], ["a"], []),
        "const": (1, "a", None),
    }
    texts: dict[str, tuple[Any, ...]] = {
        "maxLength": (0, 5, -1),
        "pattern": ("^a+$", "("),
        "default": (1, "a", None, []),
    }
    for name, values in {**numbers, **texts}.items():
        if chance.random() < 0.12:
            data[name] = chance.choice(values)
    if word == "array" or chance.random() < 0.1:
        data["items"] = drawn_schema(chance, depth + 1)
    if word == "object" or chance.random() < 0.1:
        data["properties"] = {name: drawn_schema(chance, depth + 1) for name in chance.sample("abc", 2)}
        data["required"] = chance.choice((["a"], ["a", "x"], "a", []))
        data["additionalProperties"] = chance.choice((True, False, drawn_schema(chance, depth + 1), 7))
    if chance.random() < 0.2:
        del data["type"]
    return data


def propose(context: SceneContext) -> None:
    """Propose manifests for tools of chance."""
    chance = context.chance
    for _ in range(3):
        defs = {"a": drawn_schema(chance, 1)}
        names = chance.sample(("a", "b", "c", "idempotency_key", "d" * 501, "x\ny"), 3)
        schema: dict[str, Any] = {"properties": {name: drawn_schema(chance) for name in names}, "$defs": defs}
        schema["required"] = chance.choice((names, names[:1], "a", ["other"]))
        output = chance.choice((None, drawn_schema(chance)))
        tool = drawn_tool(chance, "pay")._replace(output_schema=output)
        tool = tool._replace(input_schema=schema) if chance.random() < 0.8 else tool
        context.do("proposed", lambda tool=tool: proposed(tool))
        context.do("remarks", lambda tool=tool: list(remarks(tool)))
    for _ in range(4):
        schema = drawn_schema(chance)
        context.do(schema, lambda schema=schema: type_of(schema, {"$defs": {"a": schema}}))
    deep: Any = {"type": "string"}
    for _ in range(MAX_DEPTH + chance.choice((-1, 0, 1))):
        deep = {"items": deep}
    context.do("deep", lambda: type_of(deep, deep))
    context.do("own", lambda: type_of({"$ref": "#/$defs/a"}, {"$defs": {"a": {"$ref": "#/$defs/a"}}}))


# -- results -----------------------------------------------------------------------------------------------------------

_TEXTS: Final = (
    *(
        "",
        "yes",
        "[1, 0.10]",
        "{",
        "NaN",
        "[Infinity]",
        "1e999999999",
        "7",
        '"x"',
        "null",
        "a\x1b[31m\nb\u2028",
        "[" * 10**5,
    ),
    *("s" * length for length in (MAX_SAID - 1, MAX_SAID, MAX_SAID + 1)),
)
RETURNS: Final[tuple[Any, ...]] = (
    *(None, None, {"type": "string"}, {"type": "array"}, {"type": ["string", "null"]}, {}, {"type": "integer"}),
)
VALUES: Final[tuple[Any, ...]] = (
    *(1, "x", None, True, Decimal("0.5"), Decimal(2), Decimal(1 << 53), Decimal((1 << 53) - 1), Decimal("0.1"), 10**20),
    *(
        Decimal("0.12345678901234567890123"),
        Decimal("-3.00"),
        Decimal(-(1 << 53)),
        Decimal("1e400"),
        {"a": (Decimal(1),)},
    ),
    *([Decimal("2.50"), {"b": [None]}], (), {}),
)


_STRUCTURED: Final[tuple[Any, ...]] = (None, None, None, {"a": 1}, [], 0, "")


def read_answers(context: SceneContext) -> None:
    """Read answers to calls, and write arguments."""
    chance = context.chance
    for _ in range(6):
        parts = [
            thing(type="text", text=chance.choice(_TEXTS)) if chance.random() < 0.9 else thing(type="image")
            for _ in range(chance.choice((0, 1, 1, 1, 2)))
        ]
        structured: Any = chance.choice(_STRUCTURED)
        answer = thing(is_error=chance.random() < 0.2, structured_content=structured, content=parts)
        data = chance.choice(RETURNS)
        returns = None if data is None else TypeSpec.model_validate(data)
        context.do(data, lambda answer=answer, returns=returns: output_of(answer, returns))
        context.do("text", lambda answer=answer: text_of(answer, chance.choice((None, "…", ""))))
        context.do("said", lambda: printable(chance.choice(_TEXTS)))
        context.do("sent", lambda: json_argument(chance.choice(VALUES)))


# -- settings ----------------------------------------------------------------------------------------------------------

_NAMES: Final[tuple[Any, ...]] = (
    *("world", "a", "0", "a-b_c", "a" * 40, "a" * 41, "", "A", "-a", "_a", "a.b", "a\n", "é", None, 7, "a b"),
)
_URLS: Final = (
    *(
        "https://h/mcp",
        "http://127.0.0.1:8/mcp",
        "http://localhost",
        "http://[::1]:9/",
        "http://h/mcp",
        "ftp://h",
        "",
        "h",
    ),
    *(
        "https://u@h",
        "https://u:p@h",
        "https://:p@h",
        "https://",
        "https://[x",
        "HTTP://LOCALHOST/",
        "http://127.0.0.2/",
    ),
)


def set_up_servers(context: SceneContext) -> None:
    """Make settings of servers, with names, addresses and variables at their edges."""
    chance = context.chance
    context.variable("SCENE_TOKEN", chance.choice(("Bearer x", "", None)))
    context.variable("SCENE_TEAM", "red")
    for _ in range(8):
        name, url = chance.choice(_NAMES), chance.choice(_URLS)
        context.do("name", lambda name=name: require_name(name))
        context.do("url", lambda url=url: require_url(url))
        names = chance.sample(("SCENE_TOKEN", "SCENE_TEAM", "SCENE_NOTHING"), chance.choice((0, 1, 2)))
        context.do("http", lambda url=url, name=name: HttpServer(name, url))
        context.do("stdio", lambda name=name: StdioServer(name, "run", ("a",), folder=Path("here")))
        headers = {f"X-{number}": one for number, one in enumerate(names)}
        context.do("headers", lambda headers=headers: HttpServer("w", "https://h", headers).given_headers())
        found = context.quiet(lambda names=tuple(names): StdioServer("w", "run", env=names).environment())
        context.notes.add(
            {one: value for one, value in (found or {}).items() if one != "PATH"}, "PATH" in (found or {})
        )
        context.do("variable", lambda: variable("w", chance.choice(("SCENE_TOKEN", "SCENE_NOTHING"))))


ACTS: Final[tuple[Act, ...]] = (*(pin_tools, pin_tools, propose, propose, read_answers, read_answers, set_up_servers),)
