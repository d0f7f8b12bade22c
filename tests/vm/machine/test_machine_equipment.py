"""What a machine says of a model and of tools that it can't use, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import ModelReply, ModelRequest, Policy, Program, RunRefused, ScriptedModel


class Awaited:
    async def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(f"async {request.step}")


class Plain:
    def complete(self, asked):
        return ModelReply(f"plain {asked.step}")


class Optional:
    def complete(self, request: tuple[Any, ...], temperature: float = 0.5) -> ModelReply:
        return ModelReply(f"{temperature}")


class OfText:
    def complete(self, prompt: str) -> ModelReply:
        return ModelReply(prompt)


class ToText:
    async def complete(self, request: ModelRequest) -> str:
        return request.prompt


class OfTwo:
    def complete(self, prompt, system):
        return prompt


class InParts:
    def complete(self, request: ModelRequest) -> Iterator[str]:
        yield request.prompt


class Unreadable:
    def complete(self, request: "no such name") -> "none either":  # noqa: F722
        return ModelReply("fine")


ASKS = Program.from_dict(
    {
        "name": "asks",
        "tools": {"page_oncall": {"effect": "write", "args": {"who": {"type": "string"}}}},
        "steps": [
            {"id": "page", "type": "tool", "tool": "page_oncall", "args": {"who": "ann"}},
            {"id": "say", "type": "llm", "prompt": "hello", "output_key": "said"},
            {"id": "done", "type": "end", "output": "$said"},
        ],
    }
)


def page_oncall(who: str) -> None: ...


@pytest.mark.parametrize(
    ("model", "reply"),
    [
        (Awaited(), "async say"),
        (Plain(), "plain say"),
        (Optional(), "0.5"),
        (Unreadable(), "fine"),
        (ScriptedModel({"say": "scripted"}), "scripted"),
    ],
)
def test_an_adapter_that_fits_is_asked(model: Any, reply: str) -> None:
    assert unchecked({"page_oncall": page_oncall}, model).run_sync(ASKS).output == reply


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("gpt-4o", "a str has no such method"),
        (lambda request: "hello", "a function has no such method"),
        (object(), "an object has no such method"),
        (Awaited, "this is the class Awaited: make an instance of it"),
        (OfTwo(), r"`complete\(prompt, system\)` can't be called with one argument"),
        (OfText(), "`complete` takes str, not a ModelRequest"),
        (ToText(), r"`complete` returns str: return `ModelReply\(text\)`"),
        (InParts(), "`complete` yields its reply in parts: return the whole reply"),
    ],
)
def test_a_wrong_adapter_is_refused_when_the_machine_is_made(model: Any, why: str) -> None:
    with pytest.raises(TypeError, match=rf"^`model` must be an object with a method `complete\(request\)`.*{why}"):
        unchecked({}, model)


class Provider:
    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Any, context: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([page_oncall], "this is a list"),
        (page_oncall, "this is a function"),
        ("shop.tools", "this is a str"),
        ({page_oncall}, "this is a set"),
        ({"page_oncall": None}, "`page_oncall` is None, which can't be called"),
        ({1: page_oncall}, "the name 1 is an int, not a text"),
        (Provider, "this is the class Provider: make an instance of it"),
    ],
)
def test_tools_that_are_none_are_refused_when_the_machine_is_made(tools: Any, why: str) -> None:
    with pytest.raises(TypeError, match=f"^`tools` must be a mapping of names to functions.*; {why}$"):
        unchecked(tools)


def wrong(whom: str) -> None: ...


def more(who: str, at: int) -> None: ...


def by_place(who: str, /) -> None: ...


def key_alone(idempotency_key: str) -> None: ...


WRONG = [
    (wrong, "the manifest declares the argument `who`, and the function has no such parameter"),
    (more, "the function needs the parameter `at`, and the manifest declares no such argument"),
    (by_place, "the manifest declares the argument `who`, and the function has no such parameter"),
    (key_alone, "the manifest declares the argument `who`, and the function has no such parameter"),
]


@pytest.mark.parametrize(("function", "why"), WRONG)
def test_a_function_with_other_arguments_than_its_manifest_does_not_run(function: Any, why: str) -> None:
    machine = unchecked({"page_oncall": function}, ScriptedModel({"say": "hello"}))
    with pytest.raises(RunRefused, match=f"^`page` calls tool `page_oncall`: {why}$"):
        machine.run_sync(ASKS, run_id="run")
    assert not list(machine.journal.names())


@pytest.mark.parametrize(("function", "why"), WRONG)
def test_the_facts_of_a_policy_are_known_when_the_machine_is_made(function: Any, why: str) -> None:
    facts = {"page_oncall": {"effect": "write", "args": {"who": {"type": "string"}}}}
    policy = Policy.from_dict({"policy": "operations", "tools": facts})
    with pytest.raises(TypeError, match=f"^tool `page_oncall` of policy `operations`: {why}$"):
        unchecked({"page_oncall": function}, policy=policy)


class WithoutSignature:
    __signature__ = "none"

    def __call__(self, **args: Any) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        page_oncall,
        lambda **args: None,
        lambda who, idempotency_key, context: None,
        lambda who, urgent=False, *rest: None,
        partial(lambda who, at: None, at=1),
        WithoutSignature(),
    ],
)
def test_a_function_that_takes_what_is_declared_runs(function: Any) -> None:
    machine = unchecked({"page_oncall": function}, ScriptedModel({"say": "hello"}))
    assert machine.run_sync(ASKS).output == "hello"
