"""Forms that decide or bind names, with effects in them: they become branches, and steps in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepward.vm.lisp.compiling.branching import fork, test
from stepward.vm.lisp.compiling.compiling import DISCARD, RETURN, Compiling
from stepward.vm.lisp.compiling.forms import call, head_of, nil, symbol
from stepward.vm.lisp.compiling.texts import names_in
from stepward.vm.lisp.compiling.values import ANY, Env, Pure, Reference, Value
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal, Parens, Symbol
from stepward.vm.lisp.threading import into

Control = Callable[[Compiling, Parens, Env, str], None]
"""Makes the steps of a form; the last argument is the target of its value."""


def nested(compiler: Compiling, form: Parens, env: Env) -> tuple[Form, Env] | None:
    """Return the last form of a `do` or a `let`, and its names, after the steps of the rest; None for other forms."""
    name = head_of(form)
    if name == "do":
        forms = form.items[1:]
    elif name == "let":
        env, forms = _bound(compiler, form, env), form.items[2:]
    else:
        return None
    for one in forms[:-1]:
        compiler.run(one, env, DISCARD)
    return (forms[-1] if forms else nil(form.span)), env


def threaded(compiler: Compiling, form: Parens, env: Env) -> Form:
    """Return the nested calls that `->` or `->>` stands for, after a value that comes before effects of its step."""
    found = form.items[1]
    is_last = head_of(form) == "->>"
    for step in form.items[2:]:
        if is_last and isinstance(step, Parens) and any(map(compiler.effects.are_in, step.items[1:])):
            found = compiler.read_form(found, env)
        found = into(step, found, last=is_last)
    return found


# -- names -------------------------------------------------------------------------------------------------------------


def _bound(compiler: Compiling, form: Parens, env: Env) -> Env:
    """Return the names of a `let`, after the steps of their values."""
    brackets = form.items[1]
    assert isinstance(brackets, Brackets), "the analysis has looked at it"
    for pattern, source in zip(brackets.items[::2], brackets.items[1::2], strict=True):
        hint = pattern.name if isinstance(pattern, Symbol) else "value"
        env = bind(compiler, pattern, compiler.value(source, env, hint), env)
    return env


def bind(compiler: Compiling, pattern: Form, value: Value, env: Env) -> Env:
    """Return names with those of a pattern; a value that is not computed yet is computed here."""
    if compiler.bench.is_over:
        return env
    if isinstance(pattern, Symbol):
        reference = compiler.computed(value, pattern, pattern.name) if isinstance(value, Pure) else value
        return {**env, pattern.name: reference}
    names = sorted(_names_of(pattern))
    reference = compiler.computed(value, pattern, "value")
    source = compiler.named(reference, pattern)
    keys = {name: f"k{number}" for number, name in enumerate(names)}
    pairs = Braces(
        tuple(one for name in names for one in (Literal(keys[name], pattern.span), symbol(name, pattern))), pattern.span
    )
    destructured = call("let", Brackets((pattern, source), pattern.span), pairs, of=pattern)
    outer = {name: known for name, known in env.items() if name not in names}
    whole = compiler.computed(Pure(destructured, outer), pattern, "parts")
    parts = {name: Reference(f"{whole.text}.{keys[name]}", f"{whole.argument}_{keys[name]}", ANY) for name in names}
    return {**env, **parts}


def _names_of(pattern: Form) -> set[str]:
    """Return the names that a pattern binds."""
    if isinstance(pattern, Symbol):
        return set() if pattern.name == "&" else {pattern.name}
    if isinstance(pattern, Brackets):
        return {name for one in pattern.items for name in _names_of(one)}
    found: set[str] = set()
    if isinstance(pattern, Braces):
        for left, right in zip(pattern.items[::2], pattern.items[1::2], strict=True):
            if isinstance(left, Literal):
                word = str(left.value).lstrip(":")
                inner = names_in(right) if word in ("keys", "strs", "as") else set()
                found |= {name.rpartition("/")[2] for name in inner}
                if word == "keys" and isinstance(right, Brackets):
                    found |= {one.value.name for one in right.items if isinstance(one, Literal)}
            else:
                found |= _names_of(left)
    return found


def _entered(compiler: Compiling, form: Parens, env: Env) -> tuple[Env, tuple[Form, ...]]:
    """Return the names and the body of a function with effects at its call, after the steps of its arguments."""
    name = head_of(form)
    if name in compiler.within:
        hint = "write the steps out, or let a tool repeat them"
        raise Fault("refused", f"`{name}` calls a tool and itself, so that nothing bounds the calls", hint, form.span)
    definition = compiler.scope.functions[name]
    rest = definition.items[2:]
    rest = rest[1:] if rest and isinstance(rest[0], Literal) and len(rest) > 1 else rest
    if head_of(definition) not in ("defn", "defn-"):
        function = definition.items[-1]
        assert isinstance(function, Parens)
        rest = function.items[2:] if isinstance(function.items[1], Symbol) else function.items[1:]
    if not rest or not isinstance(rest[0], Brackets):
        raise Fault("refused", f"`{name}` calls a tool and has several arms", "write a function for each", form.span)
    params = rest[0].items
    arguments = form.items[1:]
    if any(isinstance(one, Symbol) and one.name == "&" for one in params) or len(params) != len(arguments):
        hint = f"call it with {len(params)} arguments"
        raise Fault("refused", f"`{name}` calls a tool and takes other arguments", hint, form.span)
    values = [compiler.value(one, env) for one in arguments]
    inner: Env = {}
    for param, value in zip(params, values, strict=True):
        inner = bind(compiler, param, value, inner)
    return inner, tuple(rest[1:])


# -- forms in order ----------------------------------------------------------------------------------------------------


def _do(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    compiler.body(form.items[1:], env, target, form.span)


def _let(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    env = _bound(compiler, form, env)
    compiler.body(form.items[2:], env, target, form.span)


def _thread(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    compiler.run(threaded(compiler, form, env), env, target)


def _return(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    if compiler.bench.depth:
        hint = "let the loop give its values, and return after it"
        raise Fault("refused", "`return` stands in a loop that calls a tool", hint, form.span)
    compiler.run(form.items[1] if len(form.items) > 1 else nil(form.span), env, RETURN)


def _fail(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    why = form.items[1] if len(form.items) > 1 else nil(form.span)
    value = compiler.value(why, env)
    if not compiler.bench.is_over:
        compiler.end("failure", compiler.template(value, why), form)


# -- forms that decide -------------------------------------------------------------------------------------------------


def _choose(
    compiler: Compiling, condition: Form, env: Env, target: str, then: tuple[Form, ...], otherwise: tuple[Form, ...]
) -> None:
    """Run the forms of one of two branches."""
    holds, fails = test(compiler, condition, env, is_again=False)
    ends = fork(compiler, holds, lambda: compiler.body(then, env, target, condition.span))
    compiler.bench.ways = ends + fork(compiler, fails, lambda: compiler.body(otherwise, env, target, condition.span))


def _if(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    _choose(compiler, form.items[1], env, target, form.items[2:3], form.items[3:4])


def _if_not(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    _choose(compiler, form.items[1], env, target, form.items[3:4], form.items[2:3])


def _when(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    _choose(compiler, form.items[1], env, target, form.items[2:], ())


def _when_not(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    _choose(compiler, form.items[1], env, target, (), form.items[2:])


def _cond(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    if len(form.items) == 1:
        compiler.run(nil(form.span), env, target)
        return
    condition, then, *rest = form.items[1:]
    more = (Parens((form.items[0], *rest), form.span),)
    _choose(compiler, condition, env, target, (then,), more if rest else (nil(form.span),))


def _binding(question: str, *, has_else: bool) -> Control:
    """Return `if-let` and its like: `question` is asked of the value, or nothing where it is tested itself."""

    def control(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
        brackets = form.items[1]
        assert isinstance(brackets, Brackets), "the analysis has looked at it"
        pattern, source = brackets.items
        value = compiler.value(source, env, pattern.name if isinstance(pattern, Symbol) else "value")
        if compiler.bench.is_over:
            return
        reference = compiler.computed(value, source, "value")
        read = compiler.named(reference, source)
        asked = call(question, read, of=source) if question else read
        holds, fails = test(compiler, asked, env, is_again=False)
        then, otherwise = (form.items[2:3], form.items[3:4]) if has_else else (form.items[2:], ())

        def run_then() -> None:
            compiler.body(then, bind(compiler, pattern, reference, env), target, form.span)

        ends = fork(compiler, holds, run_then)
        compiler.bench.ways = ends + fork(compiler, fails, lambda: compiler.body(otherwise, env, target, form.span))

    return control


def _and_or(*, stops_at_truth: bool) -> Control:
    def control(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
        forms = form.items[1:]
        if len(forms) < 2:
            compiler.run(forms[0] if forms else nil(form.span), env, target)
            return
        value = compiler.value(forms[0], env)
        if compiler.bench.is_over:
            return
        reference = compiler.computed(value, forms[0], "value")
        read = compiler.named(reference, forms[0])
        rest = Parens((form.items[0], *forms[1:]), form.span)
        first, second = ((read,), (rest,)) if stops_at_truth else ((rest,), (read,))
        _choose(compiler, read, env, target, first, second)

    return control


def _case(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    value = compiler.value(form.items[1], env)
    if compiler.bench.is_over:
        return
    reference = compiler.computed(value, form.items[1], "value")
    read = compiler.named(reference, form.items[1])
    clauses = list(form.items[2:])
    found: list[Form] = []
    while len(clauses) > 1:
        constants = clauses[0].items if isinstance(clauses[0], Parens) else (clauses[0],)
        questions = tuple(call("=", read, one, of=one) for one in constants)
        found += [questions[0] if len(questions) == 1 else call("or", *questions, of=clauses[0]), clauses[1]]
        del clauses[:2]
    last = (
        clauses[0] if clauses else call("fail", Literal("no clause of the form is for the value", form.span), of=form)
    )
    _cond(compiler, call("cond", *found, Literal(True, form.span), last, of=form), env, target)


def _function(compiler: Compiling, form: Parens, env: Env, target: str) -> None:
    inner, forms = _entered(compiler, form, env)
    compiler.within.append(head_of(form))
    compiler.sites.around.append(form.span)
    compiler.body(forms, inner, target, form.span)
    compiler.sites.around.pop()
    compiler.within.pop()


def control_of(compiler: Compiling, form: Form, env: Env) -> Control | None:
    """Return what makes the steps of a form with effects, None for a call of a tool and for a form of values."""
    name = head_of(form)
    if not name or name in env or not compiler.effects.are_in(form):
        return None
    return _function if name in compiler.effects.functions else CONTROL.get(name)


CONTROL: Final[dict[str, Control]] = {
    "do": _do,
    "let": _let,
    "->": _thread,
    "->>": _thread,
    "return": _return,
    "fail": _fail,
    "if": _if,
    "if-not": _if_not,
    "when": _when,
    "when-not": _when_not,
    "cond": _cond,
    "case": _case,
    "and": _and_or(stops_at_truth=False),
    "or": _and_or(stops_at_truth=True),
    "if-let": _binding("", has_else=True),
    "when-let": _binding("", has_else=False),
    "if-some": _binding("some?", has_else=True),
    "when-some": _binding("some?", has_else=False),
}
"""The forms of which the effects can be told apart."""
