"""Makes a seed mean the same in every process: Hypothesis also tries constants of whatever modules are imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def steady() -> Iterator[None]:
    """Keep Hypothesis from looking into imported modules; the constants that matter are those of the program.

    It has no setting for that. A version without the function that is replaced here does not look.
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
