"""Acts with models of providers: what goes over the network, and what becomes of each answer."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from email.utils import formatdate
from functools import cache
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.models.web import ConnectError, HTTPError, InvalidURL, Lite, Sent, StreamError, Web
from stepward.sabotage.recorded.shared.context import Act, SceneContext, thing
from stepward.vm.machine.models import ModelFailed, ModelRequest
from stepward.vm.models import exchange
from stepward.vm.models.chat import chat_of, plain, settings_of
from stepward.vm.models.key import MAX_KEY, read_key
from stepward.vm.models.litellm import LiteLLMModel
from stepward.vm.models.openai import OpenAIModel
from stepward.vm.models.prices import PriceTable

NOW: Final = 1_700_000_000
KEY: Final = "sk-invented-0123456789"

TEXTS: Final = ("", "go?", " go \n", "é “\U0001f600”", 'say "yes"', "a\tb")
SCHEMAS: Final[tuple[Any, ...]] = (
    *(None, None, {}, {"type": "string"}, {"type": ["string", "null"]}, {"type": "null"}, {"enum": [1, None]}),
    {"type": "object", "properties": {"a": {"type": "number", "sensitive": True}, "sensitive": {"type": "string"}}},
    {"type": "array", "items": {"type": ["integer", "null"], "sensitive": False}, "maxItems": 3},
    {"type": ["object"], "properties": {"sensitive": {"minimum": 0.5}}, "required": ["é"]},
    {"type": "boolean", "sensitive": True},
)


def drawn_request(chance: Random) -> ModelRequest:
    """Return a request."""
    allowed = chance.choice((None, None, None, ("yes", "no"), ('"a"', "é"), ("one",), ()))
    texts = chance.choice(TEXTS), chance.choice((None, *TEXTS)), allowed, chance.choice(SCHEMAS)
    place = chance.choice(("ask", "think")), chance.choice((1, 1, 2)), chance.choice((1, 1, 2))
    settings = chance.choice((None, None, "small", "large")), chance.choice((None, 0, 1, Decimal("0.7")))
    return ModelRequest(*texts, *place, *settings, chance.choice((None, None, 1, 500)))


CONTENTS: Final[tuple[Any, ...]] = (
    *("yes", "no", " yes ", "", "{", '"yes"', "[1, 2.5]", "1e999999999", "[" * 200_000, None, 7, ["x"], {"reply": 1}),
    *('{"reply": "yes"}', '{"reply": 1.50, "b": 2}', '{"reply": null}', '{"other": 1}', '["reply"]', '{"reply": 1e9}'),
    *("<reply>yes</reply>", 'so: <reply> {"a": 1} </reply>.', "<reply>a</reply><reply>b</reply>", "</reply>x<reply>"),
    *("<reply>x", "x</reply>", "<reply>x</reply></reply>", "<reply></reply>"),
)
COUNTS: Final[tuple[Any, ...]] = (0, 1, 5, 10, 1000, 12_345, -1, True, "5", 2.5, None)
_KINDS: Final = (
    *("application/json", "application/json; charset=utf-8", "APPLICATION/JSON ;x", "application/problem+json"),
    *("text/html", "", "text/json", "application/jsonx", "x" * 301),
)
_PAUSES: Final = (
    *(
        "0",
        "1",
        "9",
        "10",
        "11",
        "29",
        "30",
        "31",
        " 2 ",
        "007",
        "9999999999999",
        "",
        " ",
        "-1",
        "1.5",
        "soon",
        "\u00b2",
    ),
    *(formatdate(NOW + later, usegmt=True) for later in (-5, 0, 5, 29, 30, 31, 10**6)),
    "Fri, 31 Dec 9999 23:59:59 GMT",
)
_BUSY: Final = (429, 503)
_STATUSES: Final = (199, 201, 204, 299, 300, 301, 308, 399, 400, 401, 402, 403, 404, 428, 429, 430, 500, 502, 503, 504)
_ERRORS: Final[tuple[Any, ...]] = (
    *({"message": "too\nmany"}, {"message": " "}, {"message": 7}, {"message": f"bad {KEY}!"}, {}, None, "", "odd", 7),
    *({"message": "m" * length} for length in (299, 300, 301, 1199, 1200, 1201, 5000)),
    {"message": "\x1b[31m " * 200},
)


def _usage(chance: Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice((None, [], "many"))
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    usage: dict[str, Any] = {name: chance.choice(COUNTS) for name in names if chance.random() < 0.7}
    if chance.random() < 0.5:
        usage["prompt_tokens_details"] = chance.choice((None, [], {}, *({"cached_tokens": one} for one in COUNTS)))
    return usage


def _choices(chance: Random) -> Any:
    if chance.random() < 0.12:
        return chance.choice((None, [], {}, ["x"], [{}], [{"message": None}], [{"message": {}}], "x"))
    message: dict[str, Any] = {"role": "assistant", "content": chance.choice(CONTENTS)}
    if chance.random() < 0.15:
        message["refusal"] = chance.choice((None, "", "I can't", 7, *("r" * length for length in (199, 200, 201))))
    if chance.random() < 0.1:
        message["tool_calls"] = [{"function": {"name": "f", "arguments": "{}"}}]
    reason = chance.choice(("stop", "stop", "stop", "stop", None, "length", "content_filter", "tool_calls"))
    return [{"message": message, "finish_reason": reason}] * chance.choice((1, 1, 1, 2))


def drawn_answer(chance: Random) -> dict[str, Any]:
    """Return the answer of a server, in JSON."""
    answer: dict[str, Any] = {"choices": _choices(chance), "usage": _usage(chance)}
    answer["model"] = chance.choice(("small-2026", "small-2026", "", None, 7, "m" * 201))
    for name in list(answer):
        if chance.random() < 0.04:
            del answer[name]
    if chance.random() < 0.08:
        answer["error"] = chance.choice(_ERRORS)
    return answer


@cache
def _large() -> bytes:
    return bytes(exchange.MOST_BYTES)


def _body(chance: Random, status: int) -> tuple[bytes, ...]:
    at = chance.random()
    if at < 0.08:
        odd = (b"{", b"[1]", b'"x"', b"\xff", b"", b'{"a": NaN}', b"null", b'{"a": 1e999999999}', b"[" * 200_000)
        return (chance.choice(odd),)
    if at < 0.1:
        return chance.choice(((_large(), b"x"), (_large(),), (_large(), b"")))
    data = drawn_answer(chance) if status == 200 else {"error": chance.choice(_ERRORS)}
    whole = json.dumps(data).encode()
    middle = chance.randrange(len(whole))
    return (whole[:middle], whole[middle:])


def _fault(chance: Random) -> Sent:
    words = chance.choice(("", "no way", f"with {KEY}", "two\nlines", "w" * 301))
    fault: Any = chance.choice((ConnectError, HTTPError, InvalidURL, StreamError))(words)
    return Sent(200, {}, (b"{",), fault, chance.random() < 0.5)


def drawn_sent(chance: Random) -> Sent:
    """Return what a server sends: mostly an answer that is accepted."""
    if chance.random() < 0.08:
        return _fault(chance)
    status = 200 if chance.random() < 0.6 else chance.choice((*_STATUSES, *_BUSY * 8))
    body = _body(chance, status)
    headers = {"content-type": "application/json" if chance.random() < 0.8 else chance.choice(_KINDS)}
    if chance.random() < 0.03 or (len(body[0]) > 10**6):
        headers = chance.choice(({}, {"content-type": "text/html"}))
    if chance.random() < 0.1:
        headers["content-encoding"] = chance.choice(("identity", " Identity ", "", "gzip", "br"))
    if status in _BUSY or chance.random() < 0.02:
        headers |= {"retry-after": chance.choice(_PAUSES)} if chance.random() < 0.9 else {}
    if 300 <= status < 400:
        headers |= chance.choice(({}, {"location": "https://b.example/x"}, {"location": "/x"}, {"location": ""}))
    return Sent(status, headers, body)


# -- OpenAIModel -------------------------------------------------------------------------------------------------------

PRICES: Final[dict[str, dict[str, Any]]] = {
    "small": {"input": Decimal("0.15"), "output": Decimal("0.60"), "cached_input": Decimal("0.075")},
    "large": {"input": 3, "output": Decimal("15.5")},
    "free": {"input": 0, "output": 0, "cached_input": 0},
}
_BODY: Final[dict[str, tuple[Any, ...]]] = {
    "temperature": (0, 1, Decimal("0.5"), 0.25),
    "seed": (7, 0),
    "max_tokens": (9,),
    "max_completion_tokens": (11,),
    "stop": (("a", "b"), ["x"]),
    "tools": ([{"type": "function"}],),
    "extra": ({"a": (1, Decimal("2.50"))},),
}
_GOOD_URLS: Final = (
    "https://models.example.com/v1",
    "http://h/v1/",
    "https://h:8443//",
    "https://[::1]/v1",
    "http://h",
)
_BAD_URLS: Final[tuple[Any, ...]] = (
    *("", "ftp://x", "https://", "https://h:0/", "https://h:99999", "https://u:p@h", "https://@h", "https://:p@h"),
    *("https://h/v1?x", "https://h#f", "https://h/ v1", "https://h\u00e9/", "https://h\n/", "https://[x/", None, 7),
)
_BAD_OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "structured": ("json", "", None),
    "timeout": (0, 0.0009, float("inf"), float("nan"), True, "5", None, -1, Decimal("2.5"), 0.001),
    "patience": (-1, -0.001, float("inf"), "x", Decimal("0.5"), 0),
    "model": ("",),
    "messages": ([],),
    "n": (2,),
    "stream": (True,),
    "stream_options": ({},),
    "response_format": ({},),
    "api_key": (KEY,),
    "headers": ({},),
    "token": ("x",),
    "extra": (b"x", {1, 2}, float("nan"), object()),
    "prices": (PriceTable({"other": {"input": 1, "output": 1}}),),
    "key": ("sk-1", "env:", "file:", "other:x", 7, "", "env:SCENE_NOTHING", "file:/nowhere/at/all"),
}


def _key(context: SceneContext) -> Any:
    context.variable("SCENE_KEY", KEY)
    return context.pick(None, "env:SCENE_KEY", "env:SCENE_KEY", f"file:{context.file(f'  {KEY} ')}", lambda: KEY)


def _server(context: SceneContext) -> Web:
    web = Web(context)
    context.swap_item(sys.modules, "httpx2", web)
    context.swap(exchange, "time", thing(time=lambda: float(NOW)))

    async def sleep(seconds: float) -> None:
        context.notes.add("sleeps", seconds)

    context.swap(exchange, "sleep", sleep)
    return web


def _show_failure(context: SceneContext, error: Exception) -> None:
    context.notes.add_error(error)
    if isinstance(error, ModelFailed):
        context.notes.add(error.spent)


def ask_openai(context: SceneContext) -> None:
    """Ask a model over HTTP some questions."""
    chance, web = context.chance, _server(context)
    options: dict[str, Any] = context.some(_BODY, 0.25)
    options |= context.some({"structured": ("schema", "object", "prompt"), "patience": (0, 10, 30, 40, 10**6)}, 0.7)
    options |= {"prices": PriceTable(PRICES)} if chance.random() < 0.6 else {}
    name, url = chance.choice(("small", "large", "free")), chance.choice(_GOOD_URLS)
    model = context.quiet(lambda: OpenAIModel(name, url, key=_key(context), **options))
    if model is None:
        return
    context.notes.add(repr(model), model.parameters)
    for _ in range(4):
        request = drawn_request(chance)
        web.answers = [drawn_sent(chance) for _ in range(chance.choice((1, 2, 6)))]
        try:
            context.notes.add(context.wait(model.complete(request)))
        except Exception as error:
            _show_failure(context, error)


def ask_busy(context: SceneContext) -> None:
    """Ask a server that is busy for several requests, or late, or whose key has gone."""
    chance, web = context.chance, _server(context)
    patience = chance.choice((0, 4, 5, 9, 30))
    late = chance.random() < 0.15
    limits: dict[str, Any] = {"timeout": 0.001} if late else {}
    model = OpenAIModel(
        "small", _GOOD_URLS[0], key="env:SCENE_KEY" if _key(context) else None, patience=patience, **limits
    )
    pause = chance.choice(("0", "1", "2", "3"))
    busy = [Sent(chance.choice(_BUSY), {"retry-after": pause}) for _ in range(chance.randint(0, 6))]
    web.answers = [*busy, Sent(200, {"content-type": "application/json"}, _body(chance, 200), late=late)]
    if chance.random() < 0.1:
        context.variable("SCENE_KEY", None)
    try:
        context.notes.add(context.wait(model.complete(drawn_request(chance))))
    except Exception as error:
        _show_failure(context, error)


def make_openai(context: SceneContext) -> None:
    """Make models with options that can't be used, and with some that can."""
    web = _server(context)
    web.certificates = context.pick(None, None, OSError(2, "No Such Store"), OSError("Unreadable"))
    for _ in range(8):
        name = context.chance.choice(list(_BAD_OPTIONS))
        options = {name: context.chance.choice(_BAD_OPTIONS[name])} if context.maybe(0.6) else {}
        url = context.chance.choice((*_GOOD_URLS, *_BAD_URLS)) if context.maybe(0.5) else _GOOD_URLS[0]
        options |= context.some(_BODY, 0.1) | context.some(
            {"n": (1,), "stream": (True,), "password": ("x",), "secret": (1,)}, 0.05
        )
        named = options.pop("model", "small")
        shown = {one: value if isinstance(value, str | int | float) else one for one, value in options.items()}
        model = context.quiet(lambda named=named, url=url, options=options: OpenAIModel(named, url, **options))
        context.notes.add("made", named, url, shown, model and (model.parameters, model._server))
    if context.maybe(0.1):
        context.swap_item(sys.modules, "httpx2", None)
        _show_missing(context, lambda: OpenAIModel("small", _GOOD_URLS[0]))


def _show_missing(context: SceneContext, make: Any) -> None:
    """Note what is said of a library that is not there, without Python's words."""
    try:
        make()
    except Exception as error:
        before, _, after = str(error).partition("(")
        context.notes.add(type(error).__name__, before, after.partition(")")[2])


def read_keys(context: SceneContext) -> None:
    """Read keys at the edges of what one may be."""
    chance = context.chance
    texts = ("", " ", KEY, f"\n{KEY}\t", "a b", "\x7f", "~", "!", "\u00e9", "k" * MAX_KEY, "k" * (MAX_KEY + 1), "\x00")
    for _ in range(6):
        text = chance.choice(texts)
        context.variable("SCENE_KEY", None if "\x00" in text else text)
        file = context.file(text)
        context.do(text[:9], lambda: read_key("env:SCENE_KEY"))
        context.do("file", lambda file=file: read_key(f"file:{file}"))
        context.do("function", lambda text=text: read_key(lambda: text))
        odd = chance.choice((None, 7, "", "env", "env:", "file:", "key:x", f"file:{file}x", "sk-1", lambda: None))
        context.do("odd", lambda odd=odd: read_key(odd))


# -- LiteLLM -----------------------------------------------------------------------------------------------------------

_OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "temperature": (0, Decimal("0.5")),
    "api_key": (KEY,),
    "api_base": ("https://h",),
    "max_tokens": (5,),
    "max_token": (5,),
    "seed": (7,),
    "extra_headers": ({"a": "b"},),
    "credentials": ("x",),
    "client_secret": ("x",),
    "keys": (["a"],),
    "max_retries": (3,),
    "stop": (("a", "b"),),
}


def ask_litellm(context: SceneContext) -> None:
    """Ask models through LiteLLM."""
    chance, lite = context.chance, Lite(context)
    context.swap_item(sys.modules, "litellm", lite)
    prices = chance.choice((None, None, PriceTable(PRICES)))
    name = chance.choice(("small", "large", "openai/small"))
    options: dict[str, Any] = context.some(_OPTIONS, 0.3)
    model = context.quiet(lambda: LiteLLMModel(name, prices=prices, **options))
    if model is None:
        return
    context.notes.add(model.parameters)
    for _ in range(4):
        counts = {
            one: chance.choice((0, 5, 1000, None)) for one in ("prompt_tokens", "completion_tokens", "total_tokens")
        }
        usage = chance.choice((None, thing(), thing(**counts), thing(**counts), thing(**counts)))
        choices = [thing(message=thing(content=chance.choice(CONTENTS)))] if chance.random() < 0.95 else []
        lite.says = thing(choices=choices, usage=usage, model=chance.choice(("openai/s-1", None, "", 7)))
        lite.cost = chance.choice((0, 1.35e-05, "0.50", "x", float("nan"), float("inf"), 3, ValueError(), None))
        lite.takes_schemas = chance.choice((True, True, False, None, ValueError()))
        try:
            context.notes.add(context.wait(model.complete(drawn_request(chance))))
        except Exception as error:
            _show_failure(context, error)
    if chance.random() < 0.1:
        context.swap_item(sys.modules, "litellm", None)
        _show_missing(context, lambda: LiteLLMModel("small"))


# -- what is sent ------------------------------------------------------------------------------------------------------


def write_chats(context: SceneContext) -> None:
    """Write requests as chats in every way, and read contents by them."""
    for _ in range(4):
        request = drawn_request(context.chance)
        for structured in ("schema", "object", "prompt"):
            chat = chat_of(request, structured)
            context.notes.add(structured, chat)
            for content in context.chance.sample(CONTENTS, 8):
                context.notes.add(str(chat.read(content))[:80])
        context.notes.add(settings_of(request), settings_of(request, "most"), request.settings)
    data: tuple[Any, ...] = ({"a": (1, Decimal("0.10"), [True, None])}, (), Decimal(3), "x", {"b": {}})
    context.notes.add([plain(one) for one in data])


ACTS: Final[tuple[Act, ...]] = (ask_openai, ask_openai, ask_busy, make_openai, read_keys, ask_litellm, write_chats)
