"""What the forms that branch need of the compiler."""

from __future__ import annotations

from typing import Any, Final, Protocol

from stepward.vm.lisp.compiling.bench import Bench
from stepward.vm.lisp.compiling.code import Scope
from stepward.vm.lisp.compiling.effects import Effects
from stepward.vm.lisp.compiling.starting_point import Sites, StartingPoint
from stepward.vm.lisp.compiling.values import Env, Reference, Type, Value
from stepward.vm.lisp.forms import Form, Symbol
from stepward.vm.reading.source import Span

TAIL: Final = "the value of the program"
RETURN: Final = "the value of the program, and the end of it"
DISCARD: Final = "no value"


class Compiling(Protocol):
    """A program under compilation. A target is TAIL, RETURN, DISCARD, or the variable that a value goes to.

    `within` are the functions with effects whose calls are being compiled. `start` is None for a program that is no
    turn.
    """

    bench: Bench
    scope: Scope
    effects: Effects
    within: list[str]
    start: StartingPoint | None
    sites: Sites

    def run(self, form: Form, env: Env, target: str) -> None:
        """Make the steps of a form; its value goes to a target."""

    def body(self, forms: tuple[Form, ...], env: Env, target: str, span: Span) -> None:
        """Run forms in order; the value of the last one goes to the target."""

    def end(self, outcome: str, output: Any, form: Form) -> None:
        """Make an `end` step."""

    def value(self, form: Form, env: Env, hint: str = "value") -> Value:
        """Return what a form stands for, after the steps of its effects."""

    def simple(self, form: Form, env: Env) -> Value:
        """Return what a form without effects stands for."""

    def hoisted(self, items: tuple[Form, ...], env: Env) -> tuple[Form, ...]:
        """Return the arguments of a call after their effects."""

    def read_form(self, form: Form, env: Env) -> Form:
        """Return a form that reads the value of a form, which is computed here."""

    def template(self, value: Value, form: Form) -> Any:
        """Return a value as an output: references are filled in."""

    def read(self, value: Value, form: Form) -> Form:
        """Return a form that reads a value, which is computed here."""

    def named(self, reference: Reference, form: Form) -> Symbol:
        """Return a symbol by which forms read a value."""

    def computed(self, value: Value, form: Form, hint: str, expected: Type | None = None) -> Reference:
        """Return a reference to a value, after the step that computes it."""
