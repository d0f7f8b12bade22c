"""Loops whose bodies have effects: each becomes a `for_each` step, with a bound on its items."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from stepward.vm.lisp.compiling.compiling import DISCARD, TAIL, Compiling
from stepward.vm.lisp.compiling.control import bind
from stepward.vm.lisp.compiling.forms import call, head_of, nil, symbol
from stepward.vm.lisp.compiling.values import ANY, Env, Inline, Pure, Reference, Type, Value
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Brackets, Form, Literal, Parens, Short, Symbol
from stepward.vm.lisp.values import Keyword

_BINDING: Final = frozenset({"for", "doseq"})
_MAPPING: Final = frozenset({"map", "mapv", "pmap", "run!"})
_WITHOUT_VALUE: Final = frozenset({"doseq", "run!"})


class _Loop(NamedTuple):
    """A loop: the pattern of an item, the list, and the forms of the body with the names around them."""

    pattern: Form
    items: Form
    body: tuple[Form, ...]


def looped(compiler: Compiling, form: Parens, env: Env, hint: str) -> Value | None:
    """Return the value of a loop with effects, after its step; None for other forms."""
    found = _loop(compiler, form)
    if found is None:
        return _over_effects(compiler, form, env)
    source = compiler.value(found.items, env)
    if compiler.bench.is_over:
        return source
    items = compiler.computed(source, found.items, "items")
    number = len(compiler.sites.loops)
    count, total = (0, 0) if compiler.start is None else compiler.start.unrolled.get(number, (0, 0))
    compiler.sites.loops[f"loop {number}"] = number  # its number is taken before those of the loops within it
    first = [_written_out(compiler, form, found, items, position, env) for position in range(count)]
    if compiler.bench.is_over:
        return items
    if count:
        items = _rest(compiler, items, count, total, found.items)
    most = _most(compiler, items, found.items)
    if most == 0:  # nothing is left to be done
        has_value = head_of(form) not in _WITHOUT_VALUE
        values = tuple(compiler.read(one, form) for one in first if one is not None)
        return Pure(Brackets(values, form.span), {}) if has_value else Inline(nil(form.span), {})
    item = compiler.bench.name(
        found.pattern.name if isinstance(found.pattern, Symbol) and found.pattern.name != "%" else "item"
    )
    reference = Reference(f"${item}", item, None if items.type is None else ANY)
    step = compiler.bench.name(hint if hint != "value" else f"each_{item}")
    with compiler.bench.body() as body:
        inner = bind(compiler, found.pattern, reference, env)
        if head_of(form) in _WITHOUT_VALUE:
            compiler.body(found.body, inner, DISCARD, form.span)
            compiler.run(nil(form.span), inner, TAIL)
        else:
            compiler.body(found.body, inner, TAIL, form.span)
    fields = {"items": items.text, "as": item, **({} if most is None else {"max_items": most}), "steps": body}
    compiler.bench.add(step, "for_each", form, fields, {("items",): found.items.span})
    del compiler.sites.loops[f"loop {number}"]
    compiler.sites.loops[step] = number
    if head_of(form) in _WITHOUT_VALUE:
        return Inline(nil(form.span), {})
    return _joined(compiler, first, _output(step, most), form) if count else _output(step, most)


def _written_out(
    compiler: Compiling, form: Parens, loop: _Loop, items: Reference, position: int, env: Env
) -> Reference | None:
    """Make the steps of the body for one item, outside of the loop; return its value, None where it has none."""
    if compiler.bench.is_over:
        return None
    read = compiler.read(items, loop.items)
    item = Pure(call("nth", read, Literal(position, loop.items.span), of=loop.items), {})
    inner = bind(compiler, loop.pattern, compiler.computed(item, loop.items, "item"), env)
    if head_of(form) in _WITHOUT_VALUE:
        compiler.body(loop.body, inner, DISCARD, form.span)
        return None
    variable = compiler.bench.name("value")
    compiler.body(loop.body, inner, variable, form.span)
    return Reference(f"${variable}", variable, ANY)


def _rest(compiler: Compiling, items: Reference, count: int, total: int, form: Form) -> Reference:
    """Return the items of a loop without those whose steps are written out."""
    left = call("drop", Literal(count, form.span), compiler.read(items, form), of=form)
    rest = compiler.computed(Pure(left, {}), form, "items")
    return replace(rest, type={"type": "array", "maxItems": max(total - count, 0)})


def _joined(compiler: Compiling, first: list[Reference | None], rest: Reference, form: Form) -> Value:
    """Return the values of a loop: those of the items that were written out, and those of the others."""
    values = tuple(compiler.read(one, form) for one in first if one is not None)
    return Pure(call("into", Brackets(values, form.span), compiler.read(rest, form), of=form), {})


def _over_effects(compiler: Compiling, form: Parens, env: Env) -> Value | None:
    """Return the value of a loop without effects, after those of its first list; None for other forms."""
    if head_of(form) not in _BINDING or any(map(compiler.effects.are_in, form.items[2:])):
        return None
    brackets = form.items[1]
    assert isinstance(brackets, Brackets), "the analysis has looked at it"
    pattern, items, *rest = brackets.items
    if any(map(compiler.effects.are_in, (pattern, *rest))):
        return None
    (read,) = compiler.hoisted((items,), env)
    binding = replace(brackets, items=(pattern, read, *rest))
    return Pure(replace(form, items=(form.items[0], binding, *form.items[2:])), env)


def _output(step: str, most: int | None) -> Reference:
    bound: Type = {} if most is None else {"maxItems": most}
    return Reference(f"${step}.output", step, {"type": "array", **bound})


def _too_much(name: str, brackets: Brackets, form: Parens) -> Fault:
    """Return the fault of a loop around calls that has more than one name and its list."""
    words = [
        one.value.name for one in brackets.items[2::2] if isinstance(one, Literal) and isinstance(one.value, Keyword)
    ]
    if words:
        hint = "make the list before the loop: `filter` for `:when`, `take-while` for `:while`; for `:let` a `let`"
        return Fault("refused", f"`{name}` calls a tool, and has `:{words[0]}`", hint, form.span)
    hint = "bind one name: write an inner loop, or `filter` before the loop"
    return Fault("refused", f"`{name}` calls a tool and binds more than one name", hint, form.span)


def _loop(compiler: Compiling, form: Parens) -> _Loop | None:
    """Return the parts of a loop that can be compiled, None for other forms; raises a Fault for more than one list."""
    name, args = head_of(form), form.items[1:]
    if name in _BINDING:
        brackets = args[0]
        assert isinstance(brackets, Brackets), "the analysis has looked at it"
        if any(map(compiler.effects.are_in, args[1:])):
            if len(brackets.items) != 2:
                raise _too_much(name, brackets, form)
            return _Loop(brackets.items[0], brackets.items[1], args[1:])
        return None
    if name not in _MAPPING or len(args) != 2 or not compiler.effects.are_in(args[0]):
        return None
    match args[0]:
        case Short(items=items, span=span):
            return _Loop(Symbol("%", span), args[1], (Parens(items, span),))
        case Parens(items=(Symbol(name="fn"), Brackets(items=(pattern,)), *body)):
            return _Loop(pattern, args[1], tuple(body))
        case Symbol() as function if function.name in compiler.effects.functions:
            item = symbol("item", function)
            return _Loop(item, args[1], (call(function.name, item, of=form),))
        case _:
            return None


def _most(compiler: Compiling, items: Reference, form: Form) -> int | None:
    """Return the most items of a list, None where the manifest may say it; raises a Fault where nothing does."""
    if items.type is None:
        return None
    most = items.type.get("maxItems")
    if most is None:
        hint = "take a part of them, so that the number of calls is known: `(take 100 items)`"
        raise Fault(
            "refused", "a tool is called for each item of a list, and nothing bounds their number", hint, form.span
        )
    return int(most)
