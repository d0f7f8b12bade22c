"""Functions of the product with a line of them changed; a helper, no tests stand here."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from typing import Any

import pytest


def rewritten(function: Any, *changes: tuple[str, str]) -> Any:
    """Return a function of the same module whose source has each first text replaced by the second.

    Each has to stand in it exactly once: a canary whose line is gone must be mended, not pass for nothing.
    """
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert source.count(old) == 1, f"`{old}` stands {source.count(old)} times in `{function.__qualname__}`"
        source = source.replace(old, new)
    space: dict[str, Any] = {}
    code = compile(source, inspect.getfile(function), "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, sys.modules[function.__module__].__dict__, space)
    return space[function.__name__]


def rewrite(patch: pytest.MonkeyPatch, owner: Any, name: str, *changes: tuple[str, str]) -> None:
    """Put a function with changes in its place."""
    patch.setattr(owner, name, rewritten(inspect.getattr_static(owner, name), *changes))
