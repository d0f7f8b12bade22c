"""`--object package.module:NAME`: programs that only running code can make."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

from stepward.validator.gate.discovery import TargetError
from stepward.vm.language.program import Program

_HOW = "write `--object package.module:NAME`"


def load_object(name: str) -> Program | dict[str, Any]:
    """Return the program, or its plain data, that a module holds or a function in it returns.

    Modules are found as by `python -m`, from the current folder first. Raises TargetError for what is none, and for
    whatever the imported code raises.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise TargetError(f"`{name}` does not name an object", _HOW)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    value: Any = _guarded(name, lambda: import_module(module_name))
    for part in path.split("."):
        if not hasattr(value, part):
            known = [word for word in vars(value) if not word.startswith("_")] if hasattr(value, "__dict__") else []
            raise TargetError(f"`{name}`: there is no `{part}`", _nearest(part, known))
        value = getattr(value, part)
    if callable(value) and not isinstance(value, Program):
        value = _guarded(name, value)
    if not isinstance(value, Program | dict):
        help = "name a `Program`, a dict, or a function without arguments that returns one"
        raise TargetError(f"`{name}` is not a program", help)
    return value


def _nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"did you mean `{near[0]}`?" if near else _HOW


def _guarded(name: str, run: Any) -> Any:
    """Run code of the user's; whatever it raises is told in one line."""
    try:
        with redirect_stdout(sys.stderr):  # what the code prints is no part of the report
            return run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"`{name}` can't be had: {type(error).__name__}: {error}"
        raise TargetError(message, "correct the name, or mend the code that it runs") from error
