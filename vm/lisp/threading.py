"""The threading forms: each step gets the value of the one before, by a name that no program can write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepward.vm.lisp.analysis import Analyst
from stepward.vm.lisp.binding import bind
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Form, Parens, Symbol
from stepward.vm.lisp.nodes import NOTHING, Constant, Do, If, IsNil, Keep, Local, Node


def into(step: Form, value: Form, *, last: bool) -> Form:
    """Return a step with the value as its first or last argument; a name alone is a call."""
    if not isinstance(step, Parens):
        return Parens((step, value), step.span)
    if not step.items:
        raise Fault("invalid_form", "a step of the thread is empty", "write a function, or a call", step.span)
    head, *rest = step.items
    return Parens((head, *rest, value) if last else (head, value, *rest), step.span)


def _shape(form: Parens) -> tuple[Form, tuple[Form, ...]]:
    head = form.items[0]
    assert isinstance(head, Symbol), "a special form begins with its name"
    if len(form.items) < 2:
        raise Fault("invalid_form", f"`{head.short}` has no value", f"write `({head.short} x (f a) (g b))`", form.span)
    return form.items[1], form.items[2:]


def _thread(*, last: bool, stops_at_nil: bool) -> Callable[[Analyst, Parens, bool], Node]:
    """Return `->` and its like."""

    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        first, steps = _shape(form)
        slot = analyst.unit.slot()
        nodes: list[Node] = [Keep(slot, analyst.node(first))]
        with analyst.unit.scope():
            name = analyst.hidden(slot)
            for step in steps:
                node = analyst.node(into(step, Symbol(name, step.span), last=last))
                nodes.append(Keep(slot, If(IsNil(Local(slot)), NOTHING, node) if stops_at_nil else node))
        return nodes[0] if len(nodes) == 1 else Do(tuple(nodes))

    return special


def _thread_if(*, last: bool) -> Callable[[Analyst, Parens, bool], Node]:
    """Return `cond->` and `cond->>`."""

    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        first, steps = _shape(form)
        if len(steps) % 2:
            raise Fault("invalid_form", "the last test has no step", "write `(cond-> x test (f a))`", form.span)
        slot = analyst.unit.slot()
        nodes: list[Node] = [Keep(slot, analyst.node(first))]
        for test_form, step in zip(steps[::2], steps[1::2], strict=True):
            test = analyst.node(test_form)
            with analyst.unit.scope():
                name = analyst.hidden(slot)
                node = analyst.node(into(step, Symbol(name, step.span), last=last))
            nodes.append(Keep(slot, If(test, node, Local(slot))))
        return Do(tuple(nodes))

    return special


def _thread_as(analyst: Analyst, form: Parens, tail: bool) -> Node:
    """Return `as->`."""
    first, rest = _shape(form)
    if not rest:
        raise Fault("invalid_form", "`as->` has no name", "write `(as-> x name (f name))`", form.span)
    name, *steps = rest
    nodes: list[Node] = []
    with analyst.unit.scope():
        node = analyst.node(first)
        for step in [*steps, None]:
            slot = analyst.unit.slot()
            nodes.append(Keep(slot, node))
            nodes += bind(analyst, name, slot)
            if step is not None:
                node = analyst.node(step)
        nodes.append(Local(slot))
    return Do(tuple(nodes)) if nodes else Constant(None)


THREADING: Final = {
    "->": _thread(last=False, stops_at_nil=False),
    "->>": _thread(last=True, stops_at_nil=False),
    "some->": _thread(last=False, stops_at_nil=True),
    "some->>": _thread(last=True, stops_at_nil=True),
    "cond->": _thread_if(last=False),
    "cond->>": _thread_if(last=True),
    "as->": _thread_as,
}
"""The threading forms by name."""
