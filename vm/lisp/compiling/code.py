"""The names of a program under compilation, and the text of an expression with all names that it needs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Final

from stepward.vm.lisp.compiling.texts import Texts, walk
from stepward.vm.lisp.compiling.values import Env, Inline, Reference, Type, Value
from stepward.vm.lisp.forms import Form, Parens, Symbol
from stepward.vm.lisp.names import table_name
from stepward.vm.lisp.special import SPECIAL

_NO_FUNCTIONS: Final = frozenset(SPECIAL)


class Scope:
    """The names of one program: `data` by their symbols, `globals` of `def`, `functions` by their definitions."""

    def __init__(
        self, texts: Texts, forms: tuple[Form, ...], name: Callable[[str], str], values: Mapping[str, Type]
    ) -> None:
        self.texts = texts
        self._name = name
        self.inputs: dict[str, str] = {}
        """The names of the inputs of the program, by the names of the data."""
        for one in (one for form in forms for one in walk(form)):
            if isinstance(one, Symbol) and one.namespace == "data" and one.short not in self.inputs:
                self.inputs[one.short] = name(one.short)
        self.data: dict[str, Value] = {
            f"data/{arg}": Reference(f"${known}", arg, values.get(f"data/{arg}")) for arg, known in self.inputs.items()
        }
        self.globals: dict[str, Value] = {}
        self.functions: dict[str, Parens] = {}
        self.sources: dict[str, str | int] = {known: f"data/{arg}" for arg, known in self.inputs.items()}
        """What each input is: the name of a value that is there, or the number of a call whose result is known."""
        self.types: dict[str, Type] = {known: values.get(f"data/{arg}", {}) for arg, known in self.inputs.items()}
        self.given: dict[str, Value] = {}
        """The values of earlier turns that this one reads, and has not defined again."""
        used = {one.name for form in forms for one in walk(form) if isinstance(one, Symbol)}
        for arg in sorted(used & values.keys()):
            if not arg.startswith("data/"):
                known = self.add_input(arg, arg, values[arg])
                self.given[arg] = self.globals[arg] = Reference(f"${known}", known, values[arg])

    def add_input(self, hint: str, source: str | int, type: Type) -> str:
        """Add an input of the program, and return its name."""
        known = self._name(hint)
        self.sources[known], self.types[known] = source, type
        return known

    def is_free(self, name: str) -> bool:
        """Return whether nothing in this program has defined a name; a value of an earlier turn makes room for it."""
        if self.given.pop(name, None) is not None:
            return True
        return name not in self.globals and name not in self.functions

    def look(self, env: Env) -> Mapping[str, Value]:
        """Return everything that a name may stand for, from the inside out."""
        functions: dict[str, Value] = {name: Inline(form.items[1], {}) for name, form in self.functions.items()}
        return ChainMap(dict(env), self.globals, self.data, functions)

    def is_function(self, head: Symbol) -> bool:
        """Return whether a call of a name evaluates its arguments: a function of the program or of the language."""
        return head.name in self.functions or head.name in self.globals or table_name(head) not in _NO_FUNCTIONS

    def code(self, form: Form, env: Env) -> tuple[str, dict[str, str]]:
        """Return the text that computes a form, with what it needs of the program, and the data that it reads."""
        coded = _Code(self)
        coded.bind(form, env)
        text = self.texts.of(form)
        if coded.locals:
            text = f"(let [{' '.join(f'{name} {value}' for name, value in coded.locals)}]\n  {text})"
        return "\n".join([*coded.globals, text]), coded.args


class _Code:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.args: dict[str, str] = {}
        self.locals: list[tuple[str, str]] = []
        self.globals: list[str] = []
        self._seen: set[str] = set()
        self._bound: dict[str, Value] = {}
        """What each name stands for at the end of the bindings so far."""

    def bind(self, form: Form, env: Env) -> None:
        """Bind the names of a form. Those that a function takes from around it come before those of the form."""
        names = list(dict.fromkeys(one.name for one in walk(form) if isinstance(one, Symbol)))
        for name in names:
            found = env.get(name)
            if found is None:
                self._need(name)
            elif not isinstance(found, Reference) and self._bound.get(name) is not found:
                self.bind(found.form, found.env)
                self._local(name, self.scope.texts.of(found.form))
                self._bound[name] = found
        for name in names:
            found = env.get(name)
            if isinstance(found, Reference):
                self.args[found.argument] = found.text
                self._local(name, f"data/{found.argument}")
                self._bound[name] = found

    def _local(self, name: str, text: str) -> None:
        if next((value for known, value in reversed(self.locals) if known == name), None) != text:
            self.locals.append((name, text))

    def _need(self, name: str) -> None:
        scope = self.scope
        found = scope.data.get(name)
        if isinstance(found, Reference):
            self.args[name.partition("/")[2]] = found.text
        elif name not in self._seen and (name in scope.globals or name in scope.functions):
            self._seen.add(name)
            value = scope.globals.get(name)
            if isinstance(value, Reference):
                self.args[value.argument] = value.text
                self.globals.append(f"(def {name} data/{value.argument})")
            elif value is not None:
                self._needs_of(value.form)
                self.globals.append(f"(def {name} {scope.texts.of(value.form)})")
            else:
                self._needs_of(scope.functions[name])
                self.globals.append(scope.texts.of(scope.functions[name]))

    def _needs_of(self, form: Form) -> None:
        for one in walk(form):
            if isinstance(one, Symbol):
                self._need(one.name)
