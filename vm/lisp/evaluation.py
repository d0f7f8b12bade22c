"""Evaluates a Lisp program without effects: a text and data in, a value or an error out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepward.vm.lisp.analysis import Analyst, definitions
from stepward.vm.lisp.boundary import to_data, to_lisp
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, LispError
from stepward.vm.lisp.functions.higher_order import Returned
from stepward.vm.lisp.functions.table import natives
from stepward.vm.lisp.limits import Limits
from stepward.vm.lisp.modules import program_forms
from stepward.vm.lisp.special import SPECIAL
from stepward.vm.values import ValueRefused, freeze


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an evaluation came to.

    `value` is the value as data of the language, `shown` the same as Lisp text. With an `error` both are None, unless
    the error is that the value is no data (a function is none): then `shown` says what it was. `printed` are the lines
    of `println`, `cut` the characters of them that were over the limit. `steps` and `memory` are what was used:
    evaluated forms and handled items, and the most bytes of live data at one time.
    """

    value: Any
    shown: str | None
    error: LispError | None
    printed: tuple[str, ...]
    cut: int
    steps: int
    memory: int

    @property
    def is_ok(self) -> bool:
        """Whether the program has a value."""
        return self.error is None


def evaluate(
    text: str, data: Mapping[str, Any] | None = None, limits: Limits | None = None, *, hides: str = ""
) -> Outcome:
    """Evaluate a program: `data` are the values that it reads as `data/NAME`.

    With `hides`, entries of maps whose keys begin with it are left out where a map is written as text.

    It never raises for what the program or the data are: an error is a value, in `Outcome.error`. A result without a
    form as data (a function) is an error as well.
    """
    ctx = Context(limits or Limits(), natives(), hides)
    value: Any = None
    shown: str | None = None
    error: LispError | None = None
    try:
        result = _result(ctx, text, data or {})
        shown = ctx.written((result,), readable=True)
        value = to_data(ctx, result)
    except Fault as fault:
        value, error = None, fault.error()
        _forget(fault)
    return Outcome(value, shown, error, tuple(ctx.printed), ctx.unprinted, ctx.meter.steps, ctx.meter.most)


def _forget(raised: BaseException | None) -> None:
    """Take the frames from an exception: they hold the values of the program, and in a circle the exception itself."""
    while raised is not None:
        raised.__traceback__ = None
        raised = raised.__context__


def _result(ctx: Context, text: str, data: Mapping[str, Any]) -> Any:
    """Return the value of a program; raises a Fault if it has none."""
    if len(text) > ctx.limits.text:
        most = ctx.limits.text
        raise Fault("parse_error", f"the program has more than {most} characters", "hand long texts in as data")
    for name, value in data.items():
        try:
            ctx.data[name] = to_lisp(ctx, freeze(value))
        except ValueRefused as refusal:
            raise Fault(
                "type_error", f"`data/{name}` is no value: {refusal}", "hand in values of the language"
            ) from None
    forms = program_forms(text)
    program = Analyst(ctx.functions, SPECIAL, definitions(forms)).program(forms)
    try:
        return ctx.run(program.body.steps(ctx, [None] * program.size))
    except Returned as returned:
        _forget(returned)
        return returned.value
