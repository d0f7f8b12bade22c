"""Acts with replies that are kept: recordings, caches and their keys; prices; models by name and by script."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.recorded.models.providers import drawn_request
from stepward.sabotage.recorded.models.web import redis_of
from stepward.sabotage.recorded.shared.context import Act, SceneContext
from stepward.vm import writing
from stepward.vm.journal.canonical import LARGEST
from stepward.vm.machine.models import (
    ANY_NAME,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ScriptedModel,
    is_async,
    names_of,
    parameters_of,
    reply_of,
)
from stepward.vm.models import recordings
from stepward.vm.models.cache import CachedReply, read_entry, reply_key, write_entry
from stepward.vm.models.cache_redis import RedisCache
from stepward.vm.models.cache_sqlite import SQLiteCache
from stepward.vm.models.named import NamedModels
from stepward.vm.models.opening import open_cache
from stepward.vm.models.prices import LARGEST_PRICE, Price, PriceTable, Usage
from stepward.vm.models.recorded import RecordedModel
from stepward.vm.models.recordings import Recording, can_be_kept, key_of
from stepward.vm.values import freeze

# -- prices ------------------------------------------------------------------------------------------------------------

_NUMBERS: Final[tuple[Any, ...]] = (
    *(0, 1, 3, LARGEST_PRICE, LARGEST_PRICE + 1, -1, Decimal("0.15"), Decimal("1e-12"), Decimal("1e-13"), 0.1, 2.5),
    *(Decimal("-0.01"), Decimal("1000000.000000000001"), True, "1", None, float("nan"), float("inf"), [1], 1e-12),
)
_GOOD: Final[tuple[Any, ...]] = (0, 1, LARGEST_PRICE, Decimal("0.15"), Decimal("1e-12"), Decimal("2.123456789012"), 0.1)
_TOKENS: Final = (0, 1, 7, 1000, 999_999, 1_000_001, LARGEST)


def price_calls(context: SceneContext) -> None:
    """Make tables of prices, and cost calls by them."""
    chance = context.chance
    for _ in range(5):
        numbers = _GOOD if chance.random() < 0.6 else _NUMBERS
        row: Any = {field: chance.choice(numbers) for field in ("input", "output", "cached_input", "cached_input")}
        for name in list(row):
            if chance.random() < 0.15:
                del row[name]
        if chance.random() < 0.1:
            row = chance.choice((None, [], 7, {**row, "other": 1}, {}))
        models: Any = {"small": row} if chance.random() < 0.95 else chance.choice((None, [], "x"))
        more = chance.choice(({}, {"name": "the list"}))
        table = context.quiet(lambda models=models, more=more: PriceTable(models, **more))
        if table is not None:
            price = context.do("price", lambda table=table: table.price("small"))
            context.do("other", lambda table=table: table.price("other"))
            _cost(context, price)
    _cost(context, Price(*chance.sample(_GOOD, 3)))


def _cost(context: SceneContext, price: Price | None) -> None:
    for _ in range(5 if price is not None else 0):
        usage = Usage(*(context.chance.choice(_TOKENS) for _ in range(context.chance.choice((2, 3)))))
        context.do(usage, lambda usage=usage: price and price.cost(usage))


_TABLES: Final = (
    "version: 1\nmodels: {small: {input: 0.15, output: 1}}\n",
    "version: 1\nmodels: {small: {input: 0.15, output: 1, cached_input: 1e-1}, large: {input: 2, output: 3}}\n",
    '{"version": 1, "models": {"small": {"input": 0.25, "output": 1000000}}}',
    "version: 2\nmodels: {}\n",
    "version: true\nmodels: {}\n",
    "version: '1'\nmodels: {}\n",
    "version: 1.0\nmodels: {}\n",
    "version: 1\nmodels: {}\n",
    "version: 1\nmodels: []\n",
    "version: 1\n",
    "models: {}\n",
    "version: 1\nmodels: {}\nmore: 1\n",
    "version: 1\nmodels: {}\n---\nversion: 1\nmodels: {}\n",
    "version: 1\nversion: 1\nmodels: {}\n",
    "- 1\n",
    "",
    "version: 1\nmodels: {small: {input: '1', output: 1}}\n",
)


def load_prices(context: SceneContext) -> None:
    """Load tables of prices from files."""
    for _ in range(3):
        file = context.file(context.chance.choice(_TABLES), context.pick(".yaml", ".json", ".yml"))
        table = context.quiet(lambda file=file: PriceTable.load(file))
        if table is not None:
            context.notes.add(table.name, table._prices)
    context.do("nothing", lambda: PriceTable.load(context.folder / "nothing.yaml"))
    folder = context.quiet(lambda: PriceTable.load(str(context.folder)))
    context.notes.add(folder)


# -- names and scripts -------------------------------------------------------------------------------------------------


class _Plain:
    """A model whose `complete` is not async."""

    def __init__(self, content: Any, **attributes: Any) -> None:
        self.content = content
        vars(self).update(attributes)

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(self.content, 1, 2, request.model or "nameless")


class _Later(_Plain):
    """A model whose `complete` returns an awaitable, and is not async itself."""

    def complete(self, request: ModelRequest) -> Any:
        return self._reply(request)

    async def _reply(self, request: ModelRequest) -> ModelReply:
        return super().complete(request)


class _Called:
    async def __call__(self, request: ModelRequest) -> ModelReply:
        return ModelReply("called", 0, 0, request.step)


_REPLIES: Final[tuple[Any, ...]] = (
    *("yes", "no", ["a", "b"], ("a", "b", "c"), {"a": 1}, ModelReply("yes", 5, 2, "m"), [ModelReply("x", 1), "y"], []),
    *(ModelFailed("lost"), ModelFailed("paid", ModelReply(None, 3, 4, "m")), ["a", KeyError("b"), "c"], [["x"], "y"]),
    *(ModelReply({"a": Decimal("0.5")}, 0, None), ModelReply("t", 7, Decimal("0.10"), "m")),
)
_PARAMETERS: Final[tuple[Any, ...]] = (
    *(None, {}, {"temperature": 0}, {"adapter": "mine"}, {"a": [1, Decimal("0.5")]}, {"b": None, "a": True}, [1], "x"),
)


def drawn_model(context: SceneContext) -> ScriptedModel:
    """Return a model by a script."""
    script = {step: context.chance.choice(_REPLIES) for step in ("ask", "think") if context.maybe(0.95)}
    return ScriptedModel(script, parameters=context.pick(None, {}, {"temperature": 0}, {"a": [1, Decimal("0.5")]}))


def _complete(context: SceneContext, model: Any, request: ModelRequest, what: str = "reply") -> None:
    try:
        context.notes.add(what, context.wait(reply_of(model, request)))
    except Exception as error:
        context.notes.add_error(error)
        context.notes.add(error.spent if isinstance(error, ModelFailed) else "")


def follow_scripts(context: SceneContext) -> None:
    """Ask models by their scripts, more often than these have replies."""
    model = drawn_model(context)
    context.notes.add(model.script, model.parameters, "x" in names_of(model), "x" in ANY_NAME)
    for _ in range(5):
        _complete(context, model, drawn_request(context.chance))
    context.notes.add(model.asked)
    request = drawn_request(context.chance)
    context.notes.add(request.settings, ModelRequest(*request[:7]), ModelReply("x"), ModelFailed("x").spent)
    for one in (model.complete, _Plain("x").complete, _Later("x").complete, _Called(), print, _Called, 7):
        context.notes.add(is_async(one))


def name_models(context: SceneContext) -> None:
    """Ask several models by names, also those that are not async or say nothing of themselves."""
    chance = context.chance
    models: list[Any] = [drawn_model(context), _Plain("plain"), _Later("later", names=("small",))]
    models.append(_Plain("odd", parameters=chance.choice(_PARAMETERS), names=chance.choice((7, None, {"x"}, "xy"))))
    usual = chance.choice((None, *models))
    named = {name: chance.choice(models) for name in ("small", "large", "small-1") if chance.random() < 0.6}
    many = context.quiet(lambda: NamedModels(usual, **named))
    assert many is not None
    context.notes.add(sorted(many.names), many.parameters, parameters_of(many))
    context.do("nested", lambda: NamedModels(None, **{chance.choice(("a", "b")): many}))
    context.do("beside", lambda: NamedModels(many, small=models[0]).parameters)
    for model in models:
        context.notes.add(parameters_of(model), [one in names_of(model) for one in ("small", "x", "y", 7)[:2]])
    for _ in range(4):
        _complete(context, many, drawn_request(chance))
        _complete(context, chance.choice(models), drawn_request(chance), "alone")


# -- recordings --------------------------------------------------------------------------------------------------------

_KEPT: Final[tuple[Any, ...]] = (
    *(ModelReply("x"), ModelReply({"a": [1, None]}, 5, Decimal("0.10"), "m"), ModelReply(None, LARGEST, None, "")),
    *(ModelReply("x", LARGEST + 1), ModelReply("x", -1), ModelReply("x", True), ModelReply("x", 1, -1)),
    *(ModelReply("x", 1, True), ModelReply("x", 1, "1"), ModelReply("x", 1, 1.5), ModelReply("x", 1, 0, 7)),  # type: ignore[arg-type]
    *(ModelReply({1, 2}), ModelReply(float("nan")), ModelReply("x", 1, float("inf")), ModelReply("x", 1.0)),  # type: ignore[arg-type]
)


class _Any(_Plain):
    """A model that replies in turn, async."""

    async def complete(self, request: ModelRequest) -> Any:  # type: ignore[override]
        del request
        reply = self.content[0]
        self.content = [*self.content[1:], reply]
        if isinstance(reply, Exception):
            raise reply
        return reply


def record_replies(context: SceneContext) -> None:
    """Record replies in a file, play them, and ask for others; two models may write one file."""
    chance, file = context.chance, context.file(ending=".jsonl")
    _date_files(context)
    model = _Any(
        chance.sample((*_KEPT, *_KEPT[:3], ModelFailed("no"), "odd"), 4), parameters=chance.choice(_PARAMETERS)
    )
    first = context.quiet(lambda: RecordedModel(file, model, texts=chance.random() < 0.4))
    context.do("empty", lambda: RecordedModel(file).parameters)
    if first is None:
        return
    second = RecordedModel(str(file), model)
    requests = [drawn_request(chance) for _ in range(4)]
    for request in (*requests, *requests):
        _complete(context, chance.choice((first, second)), request)
    _show_file(context, file)
    context.do("parameters", lambda: (first.parameters, "x" in first.names, "small" in names_of(first)))
    other = _Any(["other"], parameters=chance.choice(_PARAMETERS))
    context.do("other", lambda: RecordedModel(file, other).parameters)
    played = context.quiet(lambda: RecordedModel(file))
    if played is not None:
        context.notes.add(played.parameters, "x" in played.names)
        for request in (*requests[:2], *(_changed(context, one) for one in requests), drawn_request(chance)):
            _complete(context, played, request)


def _changed(context: SceneContext, request: ModelRequest) -> ModelRequest:
    """Return a request with one or two other parts."""
    other = drawn_request(context.chance)
    names = context.chance.sample(request._fields[:-1], context.pick(1, 1, 2))
    return request._replace(**{name: getattr(other, name) for name in names})


def _show_file(context: SceneContext, file: Any) -> None:
    context.notes.add(file.read_bytes() if file.exists() else "no file")


def _date_files(context: SceneContext) -> Callable[[Path], None]:
    """Have each file of replies written at a time of its own, also those that are written at once; return how."""
    times = count(1)

    def date(path: Path) -> None:
        os.utime(path, ns=(next(times),) * 2)

    def put(path: Path, content: bytes) -> None:
        writing.put(path, content)
        date(path)

    context.swap(recordings, "put", put)
    return date


def record_in_turn(context: SceneContext) -> None:
    """Write a file of replies as others write it, too; the file may be gone, or be damaged meanwhile."""
    chance, file, date = context.chance, context.file(ending=".jsonl"), _date_files(context)
    model = _Any([ModelReply("x", 1), ModelReply("y", 2)], parameters={"a": 1})
    one, two = RecordedModel(file, model), RecordedModel(file, model)
    for _ in range(5):
        match chance.choice(("one", "two", "gone", "other", "odd", "none")):
            case "gone":
                file.unlink(missing_ok=True)
            case "other":
                other = _Any([ModelReply("z")], parameters={"a": 2})
                found = context.quiet(lambda other=other: RecordedModel(file, other))
                _complete(context, found, drawn_request(chance)) if found is not None else None
            case "odd":
                file.write_bytes(chance.choice((b"", b"\n \n", b"\xff", b"x\n", b"{}\n")))
                date(file)
            case "none":
                context.swap(recordings, "MOST_BYTES", chance.choice((file.stat().st_size if file.exists() else 0, 10)))
            case which:
                _complete(context, one if which == "one" else two, drawn_request(chance))
        _show_file(context, file)


_LINES: Final = (
    *("", "{}", "[]", "x", '{"a":1}', "\xff", '{"stepward_replies":1,"model":{}}', '{"stepward_replies":2,"model":{}}'),
    *('{"stepward_replies":true,"model":{}}', '{"stepward_replies":1,"model":[]}', '{"model":{}}'),
)
SEALED: Final = f"#v{'ab' * 8}:{'c' * 64}"
"""How a sensitive value stands in a record; a reply has none."""

_FIELDS: Final = {
    **{"step": ("a", 7, None), "visit": (1, 0, -1, True, "1", LARGEST + 1), "attempt": (1, -1, None)},
    **{"prompt": ("p", None, 7), "system": (None, "s", 7), "allowed": (None, "a", 7), "schema": (None, "s", []),
       "settings": ("s", None, 7)},
    **{"content": ("x", None, {"a": 1}, {"#": "x"}, SEALED, "##v"), "tokens": (0, 5, -1, True, 1.5),
       "cost": (0, None, -1, "1", True)},
    **{"model": ("m", "", None, 7), "texts": ({"prompt": "x"}, None), "more": (1,)},
}  # fmt: skip


def read_recordings(context: SceneContext) -> None:
    """Read files of recorded replies with lines of chance."""
    chance = context.chance
    for _ in range(5):
        head = (
            json.dumps({"model": {"a": 1}, "stepward_replies": 1}) if chance.random() < 0.85 else chance.choice(_LINES)
        )
        lines = [head]
        for _ in range(chance.choice((0, 1, 2, 3))):
            row: dict[str, Any] = {name: values[0] for name, values in _FIELDS.items() if name not in ("more", "texts")}
            row["visit"] = len(lines) if chance.random() < 0.9 else 1
            for name in chance.sample(sorted(_FIELDS), chance.choice((0, 0, 1, 1, 2))):
                row[name] = chance.choice(_FIELDS[name])
            if chance.random() < 0.1:
                del row[chance.choice(sorted(row))]
            lines.append(json.dumps(row) if chance.random() < 0.95 else chance.choice(_LINES))
        file = context.file("\n".join(lines).encode("utf-8" if chance.random() < 0.95 else "latin-1", "replace"))
        found = context.quiet(lambda file=file: Recording(file))
        if found is not None:
            context.notes.add(found.parameters, found.replies)
            for parameters in chance.sample(({"a": 1}, {}, {"a": 1, "b": 2}, {"a": 2}, {"a": Decimal(1)}), 2):
                context.do(parameters, lambda found=found, parameters=parameters: found.require(parameters))
    context.do("folder", lambda: Recording(context.folder).replies)


def show_keys(context: SceneContext) -> None:
    """Show the keys of requests, and what differs between two of them; and which replies can be kept."""
    for _ in range(4):
        request = drawn_request(context.chance)
        key, other = key_of(request), key_of(_changed(context, request))
        context.notes.add(key, key.place, key.differences(other), other.differences(key), key == other)
    context.notes.add([can_be_kept(reply) for reply in _KEPT])


# -- caches ------------------------------------------------------------------------------------------------------------

_BASE: Final[dict[str, Any]] = {
    **{
        "parameters": {"model": "m"},
        "prompt": "go?",
        "system": None,
        "allowed": None,
        "schema": None,
        "settings": None,
    },
}
_OTHER: Final[dict[str, tuple[Any, ...]]] = {
    "parameters": ({"model": "n"}, {"model": "m", "t": Decimal("0.5")}, {}, None),
    "prompt": ("", "go", "go?\n", "\u00e9"),
    "system": ("", "s"),
    "allowed": ((), ("a", "b"), ("b", "a"), ("a",)),
    "schema": ({"type": "string"}, {}, {"type": ["string"]}),
    "settings": ({}, {"model": "x"}, {"temperature": 0}, {"temperature": Decimal("0.5"), "model": "x"}),
}
_VALUES: Final[tuple[Any, ...]] = (
    "x",
    None,
    7,
    Decimal("0.10"),
    {"a": [1, {"b": None}]},
    ["#"],
    {"#": 1},
    True,
    "\u00e9",
)


def key_replies(context: SceneContext) -> None:
    """Show the keys of questions, and write and read entries, whole and damaged."""
    chance = context.chance
    for _ in range(6):
        names = chance.sample(sorted(_OTHER), chance.choice((0, 1, 1, 2)))
        asked_for = {**_BASE, **{name: freeze(chance.choice(_OTHER[name])) for name in names}}
        context.do(names, lambda asked_for=asked_for: reply_key(**asked_for))
    for _ in range(4):
        cached = CachedReply(freeze(chance.choice(_VALUES)), chance.choice(("m", "")))
        entry = write_entry("k", cached)
        context.do(entry, lambda entry=entry: read_entry("k", entry))
        data = json.loads(entry)
        for name in chance.sample(sorted(data), chance.choice((1, 1, 2))):
            data[name] = chance.choice(("other", 7, None, 2, True, SEALED, [SEALED], 1.0, 1))
            if chance.random() < 0.2:
                del data[name]
        odd = chance.choice((b"", b"{", b"[]", b"7", b"\xff", b"null", b"[" * 100_000, json.dumps(data).encode()))
        for one in (json.dumps(data).encode(), odd):
            context.do(one[:200], lambda one=one: read_entry(chance.choice(("k", "k", "k", "l")), one))


def keep_in_file(context: SceneContext) -> None:
    """Keep replies in a file, up to its size and beyond it, closed and opened meanwhile."""
    chance, file = context.chance, context.file(ending=".db")
    most = chance.choice((64 << 10, 48 << 10, 8 << 10, 0))
    cache = SQLiteCache(file, most_bytes=most)
    names: list[str] = []
    for number in range(chance.choice((4, 30))):
        name = f"k{number}" if chance.random() < 0.85 else chance.choice(names or ["k0"])
        size = chance.choice((0, 10, 1000, 3000, most // 8 - 1, most // 8, most // 8 + 1))
        names.append(name)
        context.quiet(lambda name=name, size=size, number=number: cache.put(name, b"%d" % number * max(size, 0)))
        if chance.random() < 0.1:
            cache.close()
    found = {name: cache.get(name) for name in sorted({*names, "other"})}
    context.notes.add({name: entry and (len(entry), entry[:4]) for name, entry in found.items()})
    cache.close()
    cache.close()
    _look_inside(context, file)
    for name in ("", ":memory:", str(context.folder), str(file)):
        context.do("cache", lambda name=name: SQLiteCache(name).get("k0") is not None)
    context.do("text", lambda: SQLiteCache(context.file("text")).put("k", b"x"))


def _look_inside(context: SceneContext, file: Any) -> None:
    """Note the order and the settings of a file, and give it an entry that is no blob."""
    connection = sqlite3.connect(file)
    try:
        rows = connection.execute("SELECT number, key, length(entry) FROM replies ORDER BY number").fetchall()
        marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        context.notes.add(rows, marks, oct(file.stat().st_mode))
        connection.execute("INSERT OR REPLACE INTO replies (key, entry) VALUES ('odd', 'text')")
        connection.commit()
    finally:
        connection.close()
    cache = SQLiteCache(file)
    context.do("odd", lambda: cache.get("odd"))
    cache.close()


def keep_on_server(context: SceneContext) -> None:
    """Keep replies on a server that speaks the protocol of Redis, and that may fail."""
    chance = context.chance
    redis = redis_of(context)
    context.swap_item(sys.modules, "redis", redis)
    url = chance.choice(("redis://h:6379/0", "rediss://h/1", "unix:///s", "redis://bad"))
    cache = context.quiet(lambda: RedisCache(url, **chance.choice(({}, {"seconds": 5}))))
    faults = [None, None, redis.RedisError("pw"), OSError("pw"), TimeoutError("pw"), KeyError("pw")]
    redis.Redis.faults = [chance.choice(faults) for _ in range(6)]
    if cache is not None:
        for name in chance.choices(("a", "b", "c"), k=5):
            context.quiet(lambda name=name: cache.put(name, name.encode() * 3))
            context.do("get", lambda name=name: cache.get(name))
        redis.Redis.tables[url]["stepward:reply:odd"] = chance.choice(("text", None, b"", 7))
        redis.Redis.faults = []
        context.do("odd", lambda: cache.get("odd"))
        cache.close()
    for place in (
        "redis://h",
        "rediss://bad",
        "unix://s",
        "http://h",
        str(context.folder / "x"),
        context.folder / "y",
        "",
    ):
        context.do("open", lambda place=place: type(open_cache(place)).__name__)
    context.swap_item(sys.modules, "redis", None)
    context.do("no client", lambda: RedisCache("redis://h"))


ACTS: Final[tuple[Act, ...]] = (
    *(price_calls, load_prices, follow_scripts, name_models, record_replies, record_replies, record_in_turn),
    *(read_recordings, show_keys, key_replies, keep_in_file, keep_on_server),
)
