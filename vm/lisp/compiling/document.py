"""A Lisp program as a document: the program that it compiles to, with the places of its parts in the Lisp text."""

from __future__ import annotations

import os
import re
from typing import Any

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.lisp.faults import Fault
from stepward.vm.reading.document import Document, Extent, Wanted
from stepward.vm.reading.source import Path


def read_lisp(name: str, text: str) -> Document:
    """Return the document of a Lisp program; raises ProgramError (SW001) for a text that is none, or can't be compiled.

    The name of the program is that of the file without its end.
    """
    try:
        data, stretches = _compiled(text)
    except Fault as fault:
        problem = Problem("SW001", fault.message, fault.hint or "see specs/lisp.md", span=fault.span)
        raise ProgramError(name, (problem,)) from None
    except RecursionError:
        problem = Problem(
            "SW004", "branches with calls of tools are nested too deep", "write fewer clauses in one form"
        )
        raise ProgramError(name, (problem,)) from None
    title = re.sub(r"[^\w-]+", "_", os.path.splitext(os.path.basename(name))[0]).strip("_") or "program"

    def locate(wanted: Wanted) -> dict[Path, Extent]:
        return {path: Extent(*stretch) for path, stretch in stretches.items()}

    return Document(name, text, "lisp", {"name": title, **data}, locate)


def _compiled(text: str) -> tuple[dict[str, Any], dict[Path, tuple[int, int]]]:
    from stepward.vm.lisp.analysis import Analyst, definitions
    from stepward.vm.lisp.compiling.compiler import Compiler
    from stepward.vm.lisp.compiling.texts import walk
    from stepward.vm.lisp.forms import Symbol
    from stepward.vm.lisp.functions.table import natives
    from stepward.vm.lisp.limits import Limits
    from stepward.vm.lisp.reader import read
    from stepward.vm.lisp.special import SPECIAL

    most = Limits().text
    if len(text) > most:
        raise Fault(
            "parse_error", f"the program has more than {most} characters", "split it, or hand long texts in as data"
        )
    forms = read(text)
    if not forms:
        raise Fault("parse_error", "there is no program here", "write a form: `(tool/name {:argument value})`")
    tools = {one.name for form in forms for one in walk(form) if isinstance(one, Symbol) and one.namespace == "tool"}
    functions = natives()
    # A call of a tool is looked at like any other call, so that mistakes around it are found at their places.
    Analyst({**functions, **dict.fromkeys(tools, functions["identity"])}, SPECIAL, definitions(forms)).program(forms)
    compiler = Compiler(text, forms)
    compiler.program()
    inputs: dict[str, Any] = {name: {} for name in compiler.scope.inputs.values()}
    return {"language": 2, "inputs": inputs, "steps": compiler.bench.steps}, compiler.bench.stretches
