"""Checks of what a machine is made with: its model and its tools, before any program runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache
from typing import Any, Final, get_origin, get_type_hints

from stepward.vm.arguments import COUNT, FUNCTION, NUMBER, Kind, able, made, require, require_each, shown_type
from stepward.vm.journal.signing import SigningKey, VerifyKey
from stepward.vm.journal.store import JOURNAL
from stepward.vm.language.policy import Policy
from stepward.vm.machine.models import ModelRequest
from stepward.vm.machine.observer import OBSERVER
from stepward.vm.machine.state import Limits
from stepward.vm.machine.tools import FunctionTools, Tools

SPECIAL: Final = frozenset({"idempotency_key", "context"})
"""The parameters that the machine fills in: they are no arguments of the tool."""

_MODEL: Final = (
    "`model` must be an object with a method `complete(request)` that takes a ModelRequest and returns a ModelReply: "
    "a ScriptedModel, a LiteLLMModel, or your own adapter"
)
_TOOLS: Final = "`tools` must be a mapping of names to functions, a module, or an object with methods"

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


PARTS: Final[Mapping[str, Kind]] = {
    "journal": JOURNAL.or_none(),
    "checker": FUNCTION.or_none(),
    "key": made(SigningKey).or_none(),
    "breaks_after": COUNT.or_none(),
    "clock": able("a clock, with `now`, `sleep` and `limit`", "now", "sleep", "limit").or_none(),
    "limits": made(Limits),
    "retry_delay": FUNCTION,
    "lease_seconds": NUMBER,
    "random": FUNCTION,
    "observer": OBSERVER.or_none(),
    "cache": Kind(
        "a file, the URL of a server, a ReplyCache, or None",
        lambda value: value is None or isinstance(value, str | os.PathLike) or able("", "get", "put").fits(value),
    ),
}
"""What a machine is made of, by the names of its parameters."""


def require_parts(**parts: object) -> None:
    """Raise TypeError for the first of these parts of a machine that can't be one."""
    for name, part in parts.items():
        match name:
            case "model":
                if part is not None:
                    require_model(part)
            case "trusted":
                require_each(made(VerifyKey), trusted=part)
            case _:
                require(PARTS[name], **{name: part})
                if name == "limits":
                    require_each(NUMBER, limits=part)


def require_model(model: object, name: str = "model") -> None:
    """Raise TypeError unless `model` can be asked: its `complete` takes a ModelRequest and may return a ModelReply."""
    wanted = _MODEL.replace("`model`", f"`{name}`")
    complete = getattr(model, "complete", None)
    if isinstance(model, type):
        raise TypeError(f"{wanted}; this is the class {model.__name__}: make an instance of it")
    if not callable(complete):
        raise TypeError(f"{wanted}; {shown_type(model)} has no such method")
    signature = _signature(complete)
    if signature is None:
        return
    try:
        signature.bind(None)
    except TypeError:
        raise TypeError(f"{wanted}; this `complete{signature}` can't be called with one argument") from None
    if inspect.isasyncgenfunction(complete) or inspect.isgeneratorfunction(complete):
        raise TypeError(f"{wanted}; this `complete` yields its reply in parts: return the whole reply")
    hints = _hints(complete)
    parameter = hints.get(next(iter(signature.parameters)))
    if isinstance(parameter, type) and parameter is not Any and not _covers(parameter, ModelRequest):
        raise TypeError(f"{wanted}; this `complete` takes {parameter.__name__}, not a ModelRequest")
    returned = hints.get("return", Any)
    if returned in (str, bytes, dict, list, None, type(None)) or get_origin(returned) in (dict, list):
        shown = "None" if returned in (None, type(None)) else getattr(returned, "__name__", str(returned))
        raise TypeError(f"{wanted}; this `complete` returns {shown}: return `ModelReply(text)`")


def tools_of(tools: object) -> Tools:
    """Return what a machine calls its tools through; raises TypeError for something that can't have tools."""
    if callable(getattr(tools, "has", None)) and callable(getattr(tools, "call", None)):
        if isinstance(tools, type):
            raise TypeError(f"{_TOOLS}; this is the class {tools.__name__}: make an instance of it")
        return tools  # type: ignore[return-value]
    if tools is None:
        return FunctionTools({})
    if isinstance(tools, Mapping):
        is_namespace = "__name__" in tools  # of a module, which has other values too
        for name, function in () if is_namespace else tools.items():
            if not isinstance(name, str):
                raise TypeError(f"{_TOOLS}; the name {name!r} is {shown_type(name)}, not a text")
            if not callable(function):
                raise TypeError(f"{_TOOLS}; `{name}` is {shown_type(function)}, which can't be called")
    elif isinstance(tools, str | bytes | int | float | list | tuple | Set) or inspect.isroutine(tools):
        raise TypeError(f"{_TOOLS}; this is {shown_type(tools)}")
    return FunctionTools(tools)


def require_facts(tools: Tools, policies: Iterable[Policy]) -> None:
    """Raise TypeError for a function that can't take the arguments that a policy declares for its tool."""
    for policy in policies:
        for name, spec in (policy.tools or {}).items():
            why = None if spec.args is None else tool_fault(tools, name, spec.args)
            if why is not None:
                raise TypeError(f"tool `{name}` of policy `{policy.policy}`: {why}")


def tool_fault(tools: Tools, name: str, declared: Iterable[str]) -> str | None:
    """Return why a tool can't be called with its declared arguments, or None if it can, or if that can't be known."""
    function = tools.function(name) if isinstance(tools, FunctionTools) else None
    return None if function is None else signature_fault(function, declared)


def signature_fault(
    function: Callable[..., Any], declared: Iterable[str], who: str = "the manifest declares"
) -> str | None:
    """Return why a function can't be called with arguments of these names, or None if it can; `who` gives them."""
    signature = _signature(function)
    if signature is None:
        return None
    known = list(declared)
    parameters = signature.parameters
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for name in known:
        if not takes_any and (name not in parameters or parameters[name].kind not in _NAMED):
            return f"{who} the argument `{name}`, and the function has no such parameter"
    for name, one in parameters.items():
        is_variable = one.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        is_needed = one.default is inspect.Parameter.empty and not is_variable
        if is_needed and one.kind is inspect.Parameter.POSITIONAL_ONLY:
            return f"its parameter `{name}` can't be given by name"
        if is_needed and name not in known and name not in SPECIAL:
            return f"the function needs the parameter `{name}`, and {who} no such argument"
    return None


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # functions in C may have none
        return None


def _hints(function: Any) -> dict[str, Any]:
    """Return the annotations of a function or of the `__call__` of an object; none if they can't be resolved."""
    return _hints_of(
        getattr(function, "__func__", function) if inspect.isroutine(function) else type(function).__call__
    )


@lru_cache(256)
def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function. They are kept: a machine is made for each request in some services."""
    try:
        return get_type_hints(function)
    except Exception:  # an annotation may be any expression
        return {}


def _covers(parameter_type: type, argument_type: type) -> bool:
    try:
        return issubclass(argument_type, parameter_type)
    except TypeError:  # a protocol that can't be asked at run time
        return True
