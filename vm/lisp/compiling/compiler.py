"""Compiles the forms of a program: what has effects becomes steps and branches, what has none is computed.

Evaluation is strict, from left to right, and so are the steps: what stands before a call is computed before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from stepward.vm.lisp.compiling.bench import Bench
from stepward.vm.lisp.compiling.code import Scope
from stepward.vm.lisp.compiling.compiling import DISCARD, RETURN, TAIL
from stepward.vm.lisp.compiling.control import control_of, nested, threaded
from stepward.vm.lisp.compiling.effects import Effects
from stepward.vm.lisp.compiling.expressions import number, truth
from stepward.vm.lisp.compiling.forms import (
    args_of,
    has_names,
    head_of,
    is_constant,
    is_definition,
    key_of,
    nil,
    symbol,
)
from stepward.vm.lisp.compiling.kinds import type_of
from stepward.vm.lisp.compiling.loops import looped
from stepward.vm.lisp.compiling.refusals import is_loop, refused
from stepward.vm.lisp.compiling.starting_point import ALONE, Sites, StartingPoint
from stepward.vm.lisp.compiling.texts import Texts, walk
from stepward.vm.lisp.compiling.values import ANY, BOOLEAN, NUMBER, Env, Inline, Pure, Reference, Type, Value
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal, Members, Parens, Pattern, Short, Symbol
from stepward.vm.lisp.values import Keyword
from stepward.vm.reading.source import Path, Span

ARGUMENT: Final[Type] = {}
"""Asks for a value whose type is that of its uses."""

ROOT: Final[Env] = {}


def _refuse_definitions_within(form: Form) -> None:
    """Refuse what defines a name within a form: the steps of other forms would not know its value, or an old one."""
    for part in form.items[1:] if is_definition(form) else (form,):
        for one in walk(part):
            if is_definition(one):
                raise refused(one)


class Compiler:
    """Compiles one program. A target is TAIL, RETURN, DISCARD, or the variable that a value goes to.

    `earlier` are the functions of earlier turns, which stand behind the forms of the program in its text. `own` is the
    number of characters of the turn itself.
    """

    def __init__(
        self,
        text: str,
        forms: tuple[Form, ...],
        start: StartingPoint | None = ALONE,
        earlier: tuple[Form, ...] = (),
        own: int | None = None,
    ) -> None:
        self.forms = forms
        self.start = start
        self.sites = Sites()
        everything = (*earlier, *forms)
        texts = Texts(text, everything)
        self.bench = Bench(texts, self.sites.around, len(text) if own is None else own)
        self.scope = Scope(texts, everything, self.bench.name, {} if start is None else start.values)
        self.effects = Effects()
        self._earlier = earlier
        self.within: list[str] = []
        """The functions with effects whose calls are being compiled."""

    def program(self) -> None:
        """Compile all forms: the last one gives the value of the program."""
        for form in self._earlier:
            assert is_definition(form), "only functions are kept as forms"
            self._define(form)
        last = len(self.forms) - 1
        for position, form in enumerate(self.forms):
            _refuse_definitions_within(form)
            if is_definition(form):
                self._define(form)
            else:
                self.run(form, ROOT, TAIL if position == last else DISCARD)
        if self.forms and is_definition(self.forms[-1]):
            name = self.forms[-1].items[1]
            is_shown = self.start is not None and isinstance(name, Symbol) and name.name in self.scope.globals
            self.run(name if is_shown else nil(self.forms[-1].span), ROOT, TAIL)

    def _define(self, form: Parens) -> None:
        name, value = form.items[1], form.items[-1]
        assert isinstance(name, Symbol), "the analysis has looked at it"
        if head_of(form) == "defonce" and name.name in self.scope.given:
            return
        if not self.scope.is_free(name.name):
            raise Fault("refused", f"`{name.name}` is defined twice", "give each value a name of its own", form.span)
        if head_of(form) in ("defn", "defn-") or head_of(value) == "fn":
            self.scope.globals.pop(name.name, None)
            self.scope.functions[name.name] = form
            if any(map(self.effects.are_in, form.items[1:])):
                self.effects.add_function(name.name)
            return
        found = self.value(value, ROOT, name.name)
        self.scope.globals[name.name] = found if isinstance(found, Inline) else self.computed(found, form, name.name)

    # -- running a form ------------------------------------------------------------------------------------------------

    def run(self, form: Form, env: Env, target: str) -> None:
        """Make the steps of a form; its value goes to a target."""
        if self.bench.is_over:
            return
        control = control_of(self, form, env)
        if control is not None and isinstance(form, Parens):
            control(self, form, env, target)
        else:
            self.store(self.value(form, env), form, target)

    def body(self, forms: tuple[Form, ...], env: Env, target: str, span: Span) -> None:
        """Run forms in order; the value of the last one goes to the target."""
        for form in forms[:-1]:
            self.run(form, env, DISCARD)
        self.run(forms[-1] if forms else nil(span), env, target)

    def store(self, value: Value, form: Form, target: str) -> None:
        """Bring a value to its target."""
        if self.bench.is_over:
            return
        if target in (TAIL, RETURN):
            if target == RETURN and self.start is not None and self.start.returns is not None:
                value = self._checked(value, form, self.start.returns)
            self.end("success", self._kept(self.template(value, form), form, is_last=target == RETURN), form)
        elif target == DISCARD:
            if isinstance(value, Pure):
                self.computed(value, form, "value")  # it may have no value, and then the program fails here
        else:
            self._assign(target, value, form)

    def _kept(self, output: Any, form: Form, *, is_last: bool) -> Any:
        """Return the output of a turn: its value, the values that it has defined, and whether it is the last one."""
        if self.start is None or self.bench.depth:
            return output
        defined = {name: value for name, value in self.scope.globals.items() if name not in self.scope.given}
        outputs = {name: self.template(value, form) for name, value in defined.items()}
        return {"value": output, "defined": outputs, "returned": is_last}

    def _checked(self, value: Value, form: Form, type: Type) -> Value:
        """Return a value after the step that checks its type."""
        text, args = self.scope.code(self.read(value, form), ROOT)
        self.sites.checked = name = self.bench.name("returned")
        fields = {"lisp": text, **({"args": args} if args else {}), "returns": dict(type)}
        self.bench.add(name, "compute", form, fields, {("lisp",): form.span})
        return Reference(f"${name}.output", name, type)

    def end(self, outcome: str, output: Any, form: Form) -> None:
        """Make an `end` step."""
        name = self.bench.name("done" if outcome == "success" else "failed")
        self.bench.add(name, "end", form, {"outcome": outcome, "output": output}, {})

    def _assign(self, variable: str, value: Value, form: Form) -> None:
        is_constant = isinstance(value, Inline) and isinstance(value.form, Literal)
        if is_constant and not isinstance(value.form.value, str | Keyword):  # type: ignore[union-attr]
            template = value.form.value  # type: ignore[union-attr]
        else:
            template = self.computed(value, form, variable).text
        self.bench.add(self.bench.name(f"set_{variable}"), "set", form, {"set": {variable: template}}, {})

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, form: Form, env: Env, hint: str = "value") -> Value:
        """Return what a form stands for, after the steps of its effects."""
        if self.bench.is_over:
            return Inline(nil(form.span), ROOT)
        if not self.effects.are_in(form):
            return self.simple(form, env)
        match form:
            case Parens(items=(Symbol() as head, *rest)) if head.name not in env:
                if head.namespace == "tool":
                    return self._call(form, head.short, tuple(rest), env)
                if head.name in ("->", "->>"):
                    return self.value(threaded(self, form, env), env, hint)
                if control_of(self, form, env) is not None:
                    return self._branched(form, env, hint)
                loop = looped(self, form, env, hint)
                if loop is not None:
                    return loop
                if is_loop(head.name) and any(map(self._is_handed_on, rest)):
                    raise refused(form)
                if self.scope.is_function(head):
                    return Pure(replace(form, items=(head, *self.hoisted(tuple(rest), env))), env)
                raise refused(form)
            case Parens(items=(Literal() as head, *rest)):
                return Pure(replace(form, items=(head, *self.hoisted(tuple(rest), env))), env)
            case Brackets(items=items) | Braces(items=items) | Members(items=items):
                return Pure(replace(form, items=self.hoisted(items, env)), env)
            case _:
                raise refused(form)

    def _is_handed_on(self, form: Form) -> bool:
        """Return whether a form is a function with effects."""
        is_function = isinstance(form, Short | Symbol) or head_of(form) == "fn"
        return is_function and self.effects.are_in(form)

    def simple(self, form: Form, env: Env) -> Value:
        """Return what a form without effects stands for."""
        if isinstance(form, Symbol):
            return self.scope.look(env).get(form.name) or Inline(form, env)
        is_inline = isinstance(form, Literal | Short) or head_of(form) == "fn" or is_constant(form)
        return Inline(form, env) if is_inline else Pure(form, env)

    def _branched(self, form: Parens, env: Env, hint: str) -> Value:
        """Return the value of a form that branches, or binds names: it goes through a variable."""
        inner = nested(self, form, env)
        if inner is not None:
            return self.value(inner[0], inner[1], hint)
        variable = self.bench.name(hint)
        self.run(form, env, variable)
        return Reference(f"${variable}", variable, ANY)

    def hoisted(self, items: tuple[Form, ...], env: Env) -> tuple[Form, ...]:
        """Return the arguments of a call after their effects: what stands before the last one is computed first."""
        last = max(number for number, one in enumerate(items) if self.effects.are_in(one))
        before = [self.read_form(one, env) for one in items[:last]]
        value = self.value(items[last], env)
        if isinstance(value, Pure) and value.env is env:  # nothing happens before it is computed with the rest
            return (*before, value.form, *items[last + 1 :])
        return (*before, self.read(value, items[last]), *items[last + 1 :])

    def read_form(self, form: Form, env: Env) -> Form:
        """Return a form that reads the value of a form, which is computed here."""
        value = self.value(form, env)
        return form if isinstance(value, Inline) and not self.effects.are_in(form) else self.read(value, form)

    def read(self, value: Value, form: Form) -> Form:
        """Return a form that reads a value, which is computed here."""
        return value.form if isinstance(value, Inline) else self.named(self.computed(value, form, "value"), form)

    def named(self, reference: Reference, form: Form) -> Symbol:
        """Return a symbol by which forms read a value."""
        self.scope.data[f"data/{reference.argument}"] = reference
        return symbol(f"data/{reference.argument}", form)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, form: Parens, tool: str, rest: tuple[Form, ...], env: Env) -> Value:
        pairs = args_of(form, rest)
        spans: dict[Path, Span] = {("tool",): form.items[0].span}
        args: dict[str, Any] = {}
        for key, argument in pairs:
            name = key_of(key)
            if name is None or name in args:
                raise Fault(
                    "refused", "the argument of a tool has no name, or a name twice", "write `{:name value}`", key.span
                )
            args[name] = self.template(self.value(argument, env), argument, is_argument=True)
            spans["args", name] = argument.span
        if self.bench.is_over:
            return Inline(nil(form.span), ROOT)
        step = self.bench.name(tool)
        number = self.sites.add_call(step, self.scope.texts.of(form), form.span)
        if self.start is not None and number in self.start.recalled:
            return self._recalled(step, number, form)
        fields = {"tool": tool, **({"args": args} if args else {})}
        if self.start is not None and number in self.start.remembered:
            return self._remembered(step, number, form, fields, spans)
        self.bench.add(step, "tool", form, fields, spans)
        return Reference(f"${step}.output", step)

    def _remembered(
        self, step: str, number: int, form: Form, fields: dict[str, Any], spans: Mapping[Path, Span]
    ) -> Value:
        """Return the result of a call: the one that is remembered if these arguments are, else that of the tool."""
        assert self.start is not None
        known = self.scope.add_input(f"known_{step}", number, self.start.remembered[number])
        found, variable = self.bench.name(f"found_{step}"), self.bench.name(f"result_{step}")
        lookup = "(first (filter #(= (:args %) data/args) data/known))"
        arguments = {"args": fields.get("args", {}), "known": f"${known}"}
        maybe = {"type": ["object", "null"]}
        place: dict[Path, Span] = {("lisp",): form.span}
        self.bench.add(found, "compute", form, {"lisp": lookup, "args": arguments, "returns": maybe}, place)
        self.bench.add(self.bench.name("test"), "condition", form, {"condition": f"${found}.output == null"}, {})
        new, old = ([way] for way in self.bench.ways)
        self.bench.ways = new
        self.bench.add(step, "tool", form, fields, spans)
        self.bench.add(self.bench.name(f"set_{variable}"), "set", form, {"set": {variable: f"${step}.output"}}, {})
        ends, self.bench.ways = self.bench.ways, old
        chosen = self.bench.name(f"taken_{step}")
        text = {"lisp": "(:result data/found)", "args": {"found": f"${found}.output"}, "returns": dict(ANY)}
        self.bench.add(chosen, "compute", form, text, place)
        self.bench.add(self.bench.name(f"set_{variable}"), "set", form, {"set": {variable: f"${chosen}.output"}}, {})
        self.bench.ways += ends
        return Reference(f"${variable}", variable, ANY)

    def _recalled(self, step: str, number: int, form: Form) -> Value:
        """Return the known result of a call that an earlier try of this turn has made."""
        assert self.start is not None
        type = self.start.recalled[number]
        known = self.scope.add_input(f"known_{step}", number, type)
        fields = {"lisp": "data/known", "args": {"known": f"${known}"}, "returns": dict(type)}
        self.bench.add(step, "compute", form, fields, {("lisp",): form.span})
        return Reference(f"${step}.output", step, type)

    def template(self, value: Value, form: Form, *, is_argument: bool = False) -> Any:
        """Return a value as an argument or an output: references are filled in when the step starts.

        A value of which nothing is known becomes an argument by a step with the type of its use: it fails if the tool
        takes no such value.
        """
        match value:
            case Reference():
                return (self.computed(value, form, value.argument, ARGUMENT) if is_argument else value).text
            case Inline(form=Literal(value=constant)):
                if isinstance(constant, Keyword):
                    return constant.name.replace("$", "$$")
                return constant.replace("$", "$$") if isinstance(constant, str) else constant
            case Pure(form=Brackets(items=items), env=env) | Inline(form=Brackets(items=items), env=env):
                return [self.template(self.simple(one, env), one, is_argument=is_argument) for one in items]
            case Pure(form=Braces() as map) | Inline(form=Braces() as map) if has_names(map.items):
                pairs = zip(map.items[::2], map.items[1::2], strict=True)
                return {
                    str(key_of(key)): self.template(self.simple(one, value.env), one, is_argument=is_argument)
                    for key, one in pairs
                }
            case Pure() | Inline(form=Braces() | Members() | Pattern()):
                return self.computed(value, form, "value", ARGUMENT).text
            case Inline():
                raise Fault("refused", "a function is no data", "call it, or leave it out", form.span)

    def computed(self, value: Value, form: Form, hint: str, expected: Type | None = None) -> Reference:
        """Return a reference to a value, after the step that computes it.

        `expected` is NUMBER where only a number makes sense, ARGUMENT where its uses say what it has to be.
        """
        if isinstance(value, Reference):
            is_fit = value.is_number or value.type is None or (expected is ARGUMENT and value.type != ANY)
            if expected is None or is_fit:
                return value
            value = Pure(self.named(value, form), ROOT)
        text, args = self.scope.code(value.form, value.env)
        if self.start is not None and "println" in text:  # what it prints is part of what it does
            return self._compute(value, text, args, form, hint, expected)
        key = text, tuple(sorted(args.items()))
        known = self.bench.known.get(key, ())
        fit = (one for one in known if (one.is_number if expected is NUMBER else one.type != ANY or expected is None))
        found = next(fit, None)
        if found is None:
            found = self._compute(value, text, args, form, hint, expected)
            self.bench.learn(key, found)
        return found

    def _compute(
        self, value: Inline | Pure, text: str, args: dict[str, str], form: Form, hint: str, expected: Type | None
    ) -> Reference:
        scope = self.scope.look(value.env)
        name = self.bench.name(hint)
        sum = number(value.form, scope) if isinstance(value.form, Parens) else None
        if sum is not None:
            self._set(name, sum, form)
            return Reference(f"${name}", name, NUMBER)
        text_of_truth = truth(value.form, scope) if isinstance(value.form, Parens) and expected is not NUMBER else None
        if text_of_truth is not None:
            self._set(name, text_of_truth, form)
            return Reference(f"${name}", name, BOOLEAN)
        type = type_of(value.form, scope)
        if expected is NUMBER and type.get("type") not in ("number", "integer"):
            type = NUMBER
        stated: Type | None = None if expected is ARGUMENT and type == ANY else type
        fields: dict[str, Any] = {"lisp": text, **({"args": args} if args else {})}
        fields |= {} if stated is None else {"returns": dict(stated)}
        self.bench.add(name, "compute", form, fields, {("lisp",): form.span})
        of = value if isinstance(value, Pure) else None
        return Reference(f"${name}.output", name, type if stated is not None else ARGUMENT, of)

    def _set(self, name: str, text: str, form: Form) -> None:
        """Assign the value of an expression to a variable."""
        self.bench.add(self.bench.name(f"set_{name}"), "set", form, {"set": {name: text}}, {("set", name): form.span})
