"""Keeps what attacks provoke out of the log of the process that plays them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_log_of_caches() -> Iterator[None]:
    """Do not log what machines report of their caches."""
    log = logging.getLogger("stepward.cache")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
