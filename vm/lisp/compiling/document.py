"""A Lisp program as a document: the program that it compiles to, with the places of its parts in the Lisp text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.lisp.compiling.starting_point import Sites, StartingPoint
from stepward.vm.lisp.faults import Fault
from stepward.vm.reading.document import Document, Extent, PathTree
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.vm.lisp.compiling.compiler import Compiler
    from stepward.vm.lisp.forms import Form


def read_lisp(name: str, text: str) -> Document:
    """Return the document of a Lisp program; raises ProgramError (SW001) for a text that is none, or can't be compiled.

    The name of the program is that of the file without its end.
    """
    with _in_words(name):
        return _document(name, text, _compiled(text, _read(text)))


@dataclass(frozen=True)
class Turn:
    """A turn of a session as a program.

    `sources` says what each input is: the name of a value that is there, or the number of a call whose result is known.
    `functions` are the texts of those that the turn defines. `sites` are its calls and loops.
    """

    document: Document
    sources: Mapping[str, str | int]
    functions: Mapping[str, str]
    sites: Sites


def read_turn(name: str, text: str, start: StartingPoint) -> Turn:
    """Return the program of a turn; raises a Fault for a text that is none, or can't be compiled.

    The functions of earlier turns stand behind the text, so that every place in it is the place that its author knows.
    """
    from stepward.vm.lisp.analysis import definitions
    from stepward.vm.lisp.modules import program_forms

    forms = _read(text)
    defined = definitions(forms)
    earlier_functions = {one: written for one, written in start.functions.items() if one not in defined}
    whole = "\n".join([text, *(["", "; from earlier turns"] if earlier_functions else []), *earlier_functions.values()])
    earlier = program_forms(whole)[len(forms) :] if earlier_functions else ()
    own = forms if not earlier_functions else program_forms(whole)[: len(forms)]
    compiler = _compiled(whole, own, start, earlier, len(text))
    written = {one: compiler.scope.texts.of(form) for one, form in compiler.scope.functions.items()}
    functions = {one: written[one] for one in written if one not in earlier_functions}
    return Turn(_document(name, whole, compiler, start.max_steps), compiler.scope.sources, functions, compiler.sites)


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """Raise ProgramError in place of what the Lisp raises."""
    try:
        yield
    except Fault as fault:
        problem = Problem("SW001", fault.message, fault.hint or "see specs/lisp.md", span=fault.span)
        raise ProgramError(name, (problem,)) from None
    except RecursionError:
        problem = Problem(
            "SW004", "branches with calls of tools are nested too deep", "write fewer clauses in one form"
        )
        raise ProgramError(name, (problem,)) from None


def _document(name: str, text: str, compiler: Compiler, max_steps: int | None = None) -> Document:
    title = re.sub(r"[^\w-]+", "_", os.path.splitext(os.path.basename(name))[0]).strip("_") or "program"
    stretches = compiler.bench.stretches

    def locate(paths: PathTree) -> dict[Path, Extent]:
        return {path: Extent(*stretch) for path, stretch in stretches.items()}

    inputs = {known: dict(type) for known, type in compiler.scope.types.items()}
    budget = {} if max_steps is None else {"max_steps": max_steps}
    data = {"name": title, "language": 2, **budget, "inputs": inputs, "steps": compiler.bench.steps}
    return Document(name, text, "lisp", data, locate)


def _read(text: str) -> tuple[Form, ...]:
    from stepward.vm.lisp.limits import Limits
    from stepward.vm.lisp.modules import program_forms

    most = Limits().text
    if len(text) > most:
        raise Fault(
            "parse_error", f"the program has more than {most} characters", "split it, or hand long texts in as data"
        )
    forms = program_forms(text)
    if not forms:
        raise Fault("parse_error", "there is no program here", "write a form: `(tool/name {:argument value})`")
    return forms


def _compiled(
    text: str,
    forms: tuple[Form, ...],
    start: StartingPoint | None = None,
    earlier: tuple[Form, ...] = (),
    own: int | None = None,
) -> Compiler:
    from stepward.vm.lisp.analysis import Analyst, definitions
    from stepward.vm.lisp.compiling.compiler import Compiler
    from stepward.vm.lisp.compiling.texts import walk
    from stepward.vm.lisp.forms import Symbol
    from stepward.vm.lisp.functions.table import natives
    from stepward.vm.lisp.special import SPECIAL

    everything = (*earlier, *forms)
    tools = {
        one.name for form in everything for one in walk(form) if isinstance(one, Symbol) and one.namespace == "tool"
    }
    functions = natives()
    known = definitions(everything) | (frozenset() if start is None else frozenset(start.values))
    # A call of a tool is looked at like any other call, so that mistakes around it are found at their places.
    Analyst({**functions, **dict.fromkeys(tools, functions["identity"])}, SPECIAL, known).program(everything)
    compiler = Compiler(text, forms, start, earlier, own)
    try:
        compiler.program()
    except Fault as fault:
        if fault.span is not None and compiler.bench.is_earlier(fault.span):
            fault.message = f"in a function of an earlier turn: {fault.message}"
            fault.span = next(iter(compiler.sites.around), None)
        raise
    return compiler
