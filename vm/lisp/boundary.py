"""The boundary of the Lisp: data of the language become values, and values become data again."""

from __future__ import annotations

from typing import Any

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.printing import scalar
from stepward.vm.lisp.values import Items, Keyword, Map, Set, is_number, kind
from stepward.vm.values import FrozenMap


def to_lisp(ctx: Context, value: Any) -> Any:
    """Return frozen data as a value: an array is a vector, an object a map with texts as keys, in their order.

    An object of the language has no order: a run that another machine continues reads it in another one.
    """
    ctx.meter.step()
    if isinstance(value, str):
        return ctx.text(value)
    if isinstance(value, dict):
        return ctx.map((key, to_lisp(ctx, value[key])) for key in sorted(value))
    if isinstance(value, tuple | list):
        return ctx.vector(to_lisp(ctx, item) for item in value)
    return value


def to_data(ctx: Context, value: Any) -> Any:
    """Return a value as data: a keyword is the text of its name, a list, vector or set an array.

    Raises a Fault for a function, and for a map in which two keys become one.
    """
    ctx.meter.step()
    if value is None or isinstance(value, str | bool) or is_number(value):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Keyword):
        return value.name
    if isinstance(value, Items | Set):
        ctx.meter.expect(8 * len(value), "the result of the program")
        return tuple(to_data(ctx, item) for item in value)
    if isinstance(value, Map):
        entries: dict[str, Any] = {}
        for key, item in value.items():
            name = _key(ctx, key)
            if name in entries:
                hint = "leave one out, or write both as keywords or as texts"
                raise Fault("type_error", f"two keys of a map are `{name}` as data", hint)
            entries[name] = to_data(ctx, item)
        return FrozenMap(entries)
    raise Fault("type_error", f"{kind(value)} is no data", "call it, or leave it out of the result")


def _key(ctx: Context, key: Any) -> str:
    if isinstance(key, Keyword):
        return key.name
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool) or is_number(key):
        return scalar(key)
    hint = "make a text of the key: `(update-keys m str)`, or return the entries as a vector"
    raise Fault("type_error", f"a key of a map is {kind(key)}, and data have texts as keys: `{ctx.shown(key)}`", hint)
