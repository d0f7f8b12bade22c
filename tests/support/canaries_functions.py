"""Canaries of the adapter that makes functions tools; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.vm.machine import tools
from stepward.vm.machine.tools import FunctionTools

TWICE = {
    "name": "twice",
    "inputs": {},
    "tools": {"pay": {"effect": "write", "idempotent": False, "args": {"amount": {"type": "integer"}}}},
    "steps": [
        {"id": "first", "type": "tool", "tool": "pay", "args": {"amount": 1}},
        {"id": "second", "type": "tool", "tool": "pay", "args": {"amount": 2}},
    ],
}
ONCE = {
    "name": "once",
    "inputs": {},
    "tools": {"look": {"effect": "read"}},
    "steps": [{"id": "look", "type": "tool", "tool": "look"}],
}
ASKS_NOTHING = {"function `look`": {"is": "blocking", "asks for": []}, "functions are in": "a mapping"}


def keeps_the_first_context(patch: pytest.MonkeyPatch) -> None:
    call, kept = FunctionTools.call, {}

    def first(self: FunctionTools, name: str, args: Mapping[str, Any], context: Any) -> Any:
        return call(self, name, args, kept.setdefault((id(self), name), context))

    patch.setattr(FunctionTools, "call", first)


def calls_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    async def at_once(function: Any, given: Mapping[str, Any]) -> Any:
        return function(**given)

    patch.setattr(tools, "in_thread", at_once)


def raises_everything_across_threads(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        tools,
        "in_thread",
        (
            "isinstance(error, Exception) and not isinstance(error, StopIteration)",
            "not isinstance(error, KeyboardInterrupt)",
        ),
    )


def forgets_the_variables_of_the_caller(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, tools, "in_thread", ("context.run(function, **args)", "function(**args)"))


def gives_the_key_to_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tools, "_special_parameters", lambda function: frozenset({"idempotency_key"}))


def leaves_what_is_to_be_awaited(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, tools, "in_thread", ("await result if inspect.isawaitable(result) else result", "result"))


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="first-context",
        defence="each attempt has a context and a key of its own",
        attack="tools-as-functions",
        program=TWICE,
        patch=keeps_the_first_context,
    ),
    Canary(
        name="functions-on-the-loop",
        defence="functions that are not async run in threads",
        attack="tools-as-functions",
        program=ONCE,
        patch=calls_on_the_loop,
        smallest={"inputs": {}, "look, visit 1, attempt 1": {"does": "returns", "value": None}, **ASKS_NOTHING},
    ),
    Canary(
        name="exits-across-threads",
        defence="what ends loops and iterators is an answer once it was raised in a thread",
        attack="tools-as-functions",
        program=ONCE,
        patch=raises_everything_across_threads,
        smallest={
            "inputs": {},
            "look, visit 1, attempt 1": {"does": "fails", "value": "it broke"},
            "raised: look, visit 1, attempt 1": "an end of an iterator",
            **ASKS_NOTHING,
        },
    ),
    Canary(
        name="variables-lost-in-threads",
        defence="a function in a thread has the context variables of its caller",
        attack="tools-as-functions",
        program=ONCE,
        patch=forgets_the_variables_of_the_caller,
    ),
    Canary(
        name="key-not-asked-for",
        defence="a function gets the key and the context only where it has a parameter for it",
        attack="tools-as-functions",
        program=ONCE,
        patch=gives_the_key_to_everybody,
    ),
    Canary(
        name="coroutine-not-awaited",
        defence="what a function in a thread gives to await is awaited",
        attack="tools-as-functions",
        program=ONCE,
        patch=leaves_what_is_to_be_awaited,
    ),
)
