"""Makes a seed reproducible in every process: Hypothesis otherwise also tries constants of imported modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def steady() -> Iterator[None]:
    """Stop Hypothesis from collecting constants of imported modules. Only those of the program matter.

    Hypothesis has no setting for that. A version without the replaced function does not collect constants.
    """
    from hypothesis.internal.conjecture import providers
    from hypothesis.internal.constants_ast import Constants

    look = getattr(providers, "_get_local_constants", None)
    if look is None:
        yield
        return
    nothing = Constants()
    providers.CONSTANTS_CACHE.cache.clear()
    providers._get_local_constants = lambda: nothing
    try:
        yield
    finally:
        providers._get_local_constants = look
        providers.CONSTANTS_CACHE.cache.clear()
