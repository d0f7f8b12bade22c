"""The lines of a person or a script: they are gathered into turns, and what a turn came to is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.validator.repl.answers import TurnAnswer
from stepward.validator.report.text import safe
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.reader import read

HELP: Final = """\
A turn is one or more forms; it ends with the line that closes the last parenthesis.
  :help          show this
  :card          show the language on one card
  :tools         list the tools that may be called
  :names         list what has a value
  :ask TASK      let the model of `--model` write turns until it returns
  :quit          leave; the end of input does the same
*1 *2 *3 are the last values. Ctrl-C clears what is typed.
"""

_OPEN: Final = ("is never closed", "ends within")


def is_open(text: str) -> bool:
    """Return whether a text is the beginning of forms: more lines may complete it."""
    try:
        read(text)
    except Fault as fault:
        return fault.reason == "parse_error" and any(word in fault.message for word in _OPEN)
    except RecursionError:
        return False
    return False


def has_forms(text: str) -> bool:
    """Return whether a text has more than white space and comments."""
    try:
        return bool(read(text))
    except (Fault, RecursionError):
        return True


def rendered(answer: TurnAnswer) -> Iterator[str]:
    """Yield the lines that show what a turn came to."""
    for line in answer.printed:
        yield from (safe(part) for part in line.split("\n"))
    if answer.cut:
        yield f"… {answer.cut:,} more characters were printed"
    error = answer.error
    if error is None:
        yield f"=> {safe(answer.shown)}"
        return
    place = f" at {error.details['line']}:{error.details['column']}" if "line" in error.details else ""
    yield f"error[{error.reason}]{place}: {safe(error.message)}"
    wrong = 0
    for line in answer.told.splitlines():
        wrong += line.startswith("wrong: ")
        if line.startswith(("path:", "with ", "turn ")):
            yield f"  {safe(line)}"
        elif line.startswith("wrong: ") and wrong > 1:  # the first one is the error
            yield f"  {safe(line.replace('wrong: ', 'and: ', 1))}"
    if error.hint:
        yield f"  help: {safe(error.hint)}"
