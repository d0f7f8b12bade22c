"""Imports of user code: `--object package.module:NAME` for programs that code makes, and tools."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, cast

from stepward.validator.files import absolute
from stepward.validator.gate.discovery import TargetError
from stepward.validator.gate.settings import did_you_mean
from stepward.vm.language.program import Program

_HOW = "write `--object package.module:NAME`"


def load_object(name: str) -> Program | dict[str, Any]:
    """Return the program, or its plain data, that a module has or a function in it returns.

    A model of another library gives its data by `model_dump`: the fields that were set.

    Modules are found as by `python -m`, from the current folder first. Raises TargetError for an object that is no
    program, and for every error of the imported code.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise TargetError(f"`{name}` does not name an object", _HOW)
    value = part_of(_imported(module_name, name), path, name, _HOW)
    if callable(value) and not isinstance(value, Program):
        value = _guarded(name, value)
    if not isinstance(value, Program) and callable(getattr(value, "model_dump", None)):
        value = _guarded(name, lambda: value.model_dump(mode="json", exclude_unset=True))
    if not isinstance(value, Program | dict):
        help = "name a `Program`, a dict, a model with `model_dump`, or a function without arguments that returns one"
        raise TargetError(f"`{name}` is not a program", help)
    return value


def part_of(value: Any, path: str, name: str, help: str) -> Any:
    """Return what a module or object has under a path of names; raises TargetError about `name` if there is nothing."""
    for part in path.split("."):
        if not hasattr(value, part):
            known = [word for word in vars(value) if not word.startswith("_")] if hasattr(value, "__dict__") else []
            raise TargetError(f"`{name}`: there is no `{part}`", did_you_mean(part, known, help))
        value = getattr(value, part)
    return value


def load_module(name: str) -> ModuleType:
    """Return a module, found as by `python -m`; raises TargetError as `load_object` does."""
    return _imported(name, name)


def load_file(path: str) -> ModuleType:
    """Return the module in a file; it may import modules beside it. Raises TargetError as `load_object` does."""
    file = absolute(path)
    if not file.is_file():
        raise TargetError(f"`{path}` is no file", "name a .py file, or a module as Python imports it")
    spec = spec_from_file_location(f"stepward_tools_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise TargetError(f"`{path}` is no Python source", "name a .py file, or a module as Python imports it")
    module, loader = module_from_spec(spec), spec.loader
    sys.modules[spec.name] = module  # code in the module may look itself up
    _find_from(str(file.parent))
    _guarded(path, lambda: loader.exec_module(module))
    return module


def _imported(module: str, name: str) -> ModuleType:
    _find_from(os.getcwd())
    return cast(ModuleType, _guarded(name, lambda: import_module(module)))


def _find_from(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _guarded(name: str, run: Any) -> Any:
    """Run code of the user; raises TargetError with one line for every error."""
    try:
        with redirect_stdout(sys.stderr):  # output of the code is no part of the report
            return run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"`{name}` can't be imported: {type(error).__name__}: {error}"
        raise TargetError(message, "correct the name, or fix the code that it runs") from error
