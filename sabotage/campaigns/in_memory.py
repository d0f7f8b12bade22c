"""The files of attacks, in memory where there is room: a campaign is short, and would spend its time on a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MEMORY: Final = "/dev/shm"
ROOM: Final = 1 << 30
"""Bytes that have to be free."""


@contextmanager
def in_memory() -> Iterator[None]:
    """Let temporary files be in memory, unless `TMPDIR` names a place, or there is no room."""
    before = tempfile.tempdir
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
        tempfile.tempdir = MEMORY
    try:
        yield
    finally:
        tempfile.tempdir = before
