"""Records the CPU seconds of each test function in `seconds.json`: `make seconds`, or with `FILES=tests/test_x.py`.

A test is a function here, with all its parameters. Only what takes half a second or more is written down.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS = Path(__file__).parent / "seconds.json"
LEAST = 0.5
ENOUGH = 15.0
"""A function that has taken so long is too long for `make quick`: the rest of it is skipped."""


class TooLongError(BaseException):
    """A test that has taken `ENOUGH` is stopped; no test may catch it by chance."""


def stop(*_: object) -> None:
    raise TooLongError


def spent() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Recorder:
    """The seconds of one session."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        before = spent()
        result = yield
        self.seconds[function(item)] += spent() - before
        return result

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.seconds[function(item)] > ENOUGH:
            pytest.skip("it has taken long enough to be too long")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[object]:
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, ENOUGH)
        try:
            return (yield)
        except TooLongError:
            pytest.skip("it has taken long enough to be too long")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_sessionfinish(self) -> None:
        files = {name.partition("::")[0] for name in self.seconds}
        others = {name: taken for name, taken in recorded().items() if name.partition("::")[0] not in files}
        long = {name: round(taken, 1) for name, taken in self.seconds.items() if taken >= LEAST}
        SECONDS.write_text(json.dumps(dict(sorted((others | long).items())), indent=1) + "\n", encoding="utf-8")


def function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0].rpartition("/")[2]


def recorded() -> dict[str, float]:
    """Return the CPU seconds of each test function that takes `LEAST` or more."""
    return json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.exists() else {}


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder())
