"""Another time zone for a scene: what machines do must not depend on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ZONE: Final = "STW-14"
"""A zone in the words of POSIX, 14 hours before UTC: most of a day there is another day than that of UTC."""


@contextmanager
def in_another_zone() -> Iterator[None]:
    """Let this process be in another time zone, where the system can change it."""
    if not hasattr(time, "tzset"):
        yield
        return
    before = os.environ.get("TZ")
    os.environ["TZ"] = ZONE
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
