"""What can't be compiled, with the reason and what to write instead."""

from __future__ import annotations

from typing import Final

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Form, Parens, Symbol

_ITEMS: Final = "let a tool take all items at once, or call the tool for each item that you name"
_LOOPS: Final = frozenset(
    [
        *("for", "doseq", "loop", "map", "mapv", "mapcat", "map-indexed", "pmap", "filter", "filterv", "remove"),
        *("keep", "keep-indexed", "reduce", "reduce-kv", "run!", "some", "every?", "iterate", "update-vals"),
        *("group-by", "sort-by"),
    ]
)
_UNCOMPILED: Final = {
    "pcalls": "call the tools in turn, with `let`",
    "condp": "write `cond`",
    "cond->": "write `let` and `if`",
    "cond->>": "write `let` and `if`",
    "some->": "write `let` and `when-some`",
    "some->>": "write `let` and `when-some`",
    "as->": "write `let`",
    "when-first": "write `(when-some [x (first xs)] …)`",
}


def is_loop(name: str) -> bool:
    """Return whether a form or function of this name evaluates something once for each item."""
    return name in _LOOPS


def refused(form: Form) -> Fault:
    """Return why a form with effects can't be compiled."""
    head = form.items[0] if isinstance(form, Parens) and form.items else None
    name = head.name if isinstance(head, Symbol) else ""
    if name in _LOOPS:
        return Fault(
            "refused", f"a tool is called in a loop (`{name}`), and nothing bounds the calls", _ITEMS, form.span
        )
    if name in _UNCOMPILED:
        return Fault("refused", f"a tool is called within `{name}`", _UNCOMPILED[name], form.span)
    if name in ("def", "defonce", "defn", "defn-"):
        hint = "write it at the top of the program, or name the value with `let`"
        return Fault("refused", f"`{name}` stands within a form", hint, form.span)
    why = "a tool is called, or the program ends, within a function that is handed on"
    return Fault("refused", why, "call it where the program gets to it: in `let`, `do`, `if` or `cond`", form.span)
