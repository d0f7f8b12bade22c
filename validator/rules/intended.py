"""The reference that people mean who write one as in another language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.validator.context import Context
from stepward.vm.language.names import Resolution
from stepward.vm.language.similar import MAX_CANDIDATES, only_near

SECTIONS: Final = frozenset(
    {"inputs", "input", "steps", "step", "vars", "variables", "state", "context", "ctx", "params", "outputs"}
)
"""Words that other languages put before a name, to say where it comes from."""

RESULTS: Final = frozenset(
    {"output", "outputs", "result", "results", "response", "value", "data", "content", "body", "json", "text", "reply"}
)
"""Words that other languages put behind the name of a step, to say what it is read for."""

Names = tuple[str, ...]


def intended(context: Context, names: Names) -> Names | None:
    """Return the names of the reference that is surely meant by these, or None if the program has no such name.

    The first candidate is returned whose fields all have a declared type, else the first that the program has.
    """
    known = [(names, resolution) for names in _candidates(context, names) if (resolution := _meaning(context, names))]
    declared = (names for names, resolution in known if _is_declared(context, resolution))
    return next(declared, known[0][0] if known else None)


def _candidates(context: Context, names: Names) -> Iterator[Names]:
    """Yield what names may stand for: without words of other languages, and with a misspelt name corrected."""
    known = context.facts.meaning.names
    yield names
    if names[0] in SECTIONS and len(names) > 1 and (known.declares_inputs or names[0] not in known.variables):
        yield from _candidates(context, names[1:])
    if names[0] in known.outputs:
        yield (names[0], "output", *names[1:])
        if names[1:2] and names[1] in RESULTS:
            yield (names[0], "output", *names[2:])
    elif names[0] in known.variables and names[1:2] and names[1] in RESULTS:
        yield (names[0], *names[2:])
    elif len(known.variables) <= MAX_CANDIDATES and (similar := only_near(names[0], known.variables)):
        yield (similar, *names[1:])


def _meaning(context: Context, names: Names) -> Resolution | None:
    """Return what names refer to, or None if nothing defines them, or their type has no such field."""
    resolution = context.facts.meaning.names.meaning(names)
    if resolution is None or (resolution.fields and context.facts.meaning.typing.view(resolution).never):
        return None
    return resolution


def _is_declared(context: Context, resolution: Resolution) -> bool:
    """Return whether a type lists the last field of a reference; one without fields needs none."""
    return not resolution.fields or resolution.fields[-1] in context.facts.known_fields(resolution)
