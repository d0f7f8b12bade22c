"""Checks formulas: each SMT-LIB 2 text must be unsatisfiable, by cvc5, or by Z3 in a fresh context without cvc5.

Only the solver reads a text. That the text describes the program is the claim of the engine that wrote it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from stepward.validator.recheck.refusals import Refused, TooLarge

UNITS: Final = 50_000_000
"""The most units of work for one formula, in each solver's own measure."""

_COMMANDS: Final = ("set-logic", "declare-fun", "declare-const", "define-fun", "assert", "check-sat")


@lru_cache(maxsize=1)
def solver() -> str:
    """Return the name of the solver that checks formulas in this installation."""
    return "cvc5" if find_spec("cvc5") is not None else "z3"


def must_be_unsatisfiable(text: str, shows: str, seconds: float) -> None:
    """Refuse a text that is not unsatisfiable, or that has more than declarations, facts and one question.

    Raises TooLarge where the solver can't decide within UNITS, or within `seconds`.
    """
    _only_asks(text, shows)
    answer = _by_cvc5(text, seconds) if solver() == "cvc5" else _by_z3(text, seconds)
    if answer == "unknown":
        raise TooLarge(
            f"{solver()} does not settle the formula for `{shows}` within {UNITS:,} units and {seconds:.0f} s"
        )
    if answer != "unsat":
        raise Refused(f"the formula for `{shows}` is not unsatisfiable: {solver()} says {answer}")


def says_nothing(text: str) -> bool:
    """Return whether a text just asserts `false`, so that the formula itself shows nothing."""
    return any("".join(command.split()) == "(assertfalse)" for command in _commands(text))


def _only_asks(text: str, shows: str) -> None:
    """Refuse commands that could change the answer of a solver."""
    questions = 0
    for command in _commands(text):
        word = command[1:].split(None, 1)[0].rstrip(")") if len(command) > 2 else ""
        if word not in _COMMANDS:
            raise Refused(f"the formula for `{shows}` holds `{command[:40]}`, which no formula needs")
        questions += word == "check-sat"
    if questions != 1 or not text.rstrip().endswith("(check-sat)"):
        raise Refused(f"the formula for `{shows}` does not end with its one question")


def _commands(text: str) -> list[str]:
    """Split a text into its commands."""
    commands, depth, start, quoted = [], 0, 0, ""
    for position, char in enumerate(text):
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in '"|':
            quoted = char
        elif char == ";":
            raise Refused("a formula holds a comment")
        elif char == "(":
            start = position if depth == 0 else start
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                commands.append(text[start : position + 1])
        elif depth == 0 and not char.isspace():
            raise Refused("a formula holds what is no command")
    if depth or quoted:
        raise Refused("a formula breaks off")
    return commands


def _by_cvc5(text: str, seconds: float) -> str:
    import cvc5

    instance: Any = cvc5.Solver()
    instance.setOption("rlimit", str(UNITS))
    instance.setOption("tlimit", str(int(seconds * 1000) + 1))
    parser = cvc5.InputParser(instance)
    symbols = parser.getSymbolManager()
    try:
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "certificate")
        answer = ""
        while True:
            command = parser.nextCommand()
            if command.isNull():
                break
            output = command.invoke(instance, symbols).strip()
            if output.startswith("(error"):
                raise Refused(f"cvc5 can't read a formula: {output[:200]}")
            answer = output or answer
    except RuntimeError as error:
        raise Refused(f"cvc5 can't read a formula: {str(error)[:200]}") from None
    return answer or "nothing"


def _by_z3(text: str, seconds: float) -> str:
    import z3

    instance = z3.Solver(ctx=z3.Context())
    instance.set("rlimit", UNITS)
    instance.set("timeout", min(int(seconds * 1000) + 1, 2**31))
    try:
        instance.from_string(text)
    except z3.Z3Exception as error:
        raise Refused(f"z3 can't read a formula: {str(error)[:200]}") from None
    return str(instance.check())
