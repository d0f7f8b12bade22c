"""Checks an expression without evaluating it: whether it can be read, and which data it reads."""

from __future__ import annotations

from functools import lru_cache

from stepward.vm.lisp.analysis import Analyst, definitions
from stepward.vm.lisp.faults import Fault, LispError
from stepward.vm.lisp.functions.table import natives
from stepward.vm.lisp.limits import Limits
from stepward.vm.lisp.modules import program_forms
from stepward.vm.lisp.special import SPECIAL


def problem_of(text: str) -> LispError | None:
    """Return why a text is no expression of the language, None if it is one."""
    found = _checked(text)
    return found if isinstance(found, LispError) else None


def data_read(text: str) -> frozenset[str]:
    """Return the names that an expression reads as `data/NAME`; none for a text that is no expression."""
    found = _checked(text)
    return frozenset() if isinstance(found, LispError) else found


@lru_cache(maxsize=1_024)
def _checked(text: str) -> frozenset[str] | LispError:
    most = Limits().text
    if len(text) > most:
        return LispError("parse_error", f"the expression has more than {most} characters", "split it")
    try:
        forms = program_forms(text)
        analyst = Analyst(natives(), SPECIAL, definitions(forms))
        analyst.program(forms)
    except Fault as fault:
        return fault.error()
    return frozenset(analyst.data_read)
