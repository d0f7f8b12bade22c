"""Fast: the watch stops what it guards at the deadline, and never inside of code that would stay broken."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import pytest

from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.watch import DELICATE, Watch


def never_ends() -> None:
    while True:
        pass


def works() -> int:
    """Work for much longer than the clock allows, and return."""
    ended = time.monotonic() + 0.7
    while time.monotonic() < ended:
        pass
    return 7


def inside(module: str, function: Callable[[], int]) -> Callable[[], int]:
    """Return a function as if it were of another module."""
    return FunctionType(function.__code__, {**function.__globals__, "__name__": module})


def test_the_watch_stops_what_it_guards_and_nothing_else() -> None:
    with Watch(Clock(0.05)) as guard:
        with pytest.raises(OutOfTime, match=r"stopped by the clock after 0\.05 s"):
            guard.guarded(never_ends)
        ended = time.monotonic() + 0.7
        while time.monotonic() < ended:  # nobody is raised at here
            pass
        assert guard.spared(lambda: 7) == 7


def test_a_delicate_call_is_not_interrupted() -> None:
    with Watch(Clock(0.01)) as guard:
        assert guard.guarded(lambda: guard.spared(works)) == 7


@pytest.mark.parametrize("module", DELICATE)
def test_nothing_is_raised_inside_of_delicate_code_but_behind_it(module: str) -> None:
    done = []

    def calls() -> None:
        done.append(inside(module, works)())
        never_ends()

    with Watch(Clock(0.01)) as guard, pytest.raises(OutOfTime):
        guard.guarded(calls)
    assert done == [7]


def test_nothing_is_raised_inside_of_the_finalizer_of_an_object_but_behind_it() -> None:
    """What it raises is lost, and Python prints a warning."""
    ended: list[bool] = []

    class Slow:
        def __del__(self) -> None:
            ends = time.monotonic() + 0.5
            while time.monotonic() < ends:
                pass
            ended.append(True)

    def works() -> None:
        Slow()
        while True:
            pass

    with Watch(Clock(0.01)) as watch, pytest.raises(OutOfTime):
        watch.guarded(works)
    assert ended == [True]


def test_it_raises_in_a_check_that_delicate_code_has_called() -> None:
    """A module may check a program while it is imported."""

    def check() -> int:
        with Watch(Clock(0.01)) as guard, pytest.raises(OutOfTime):
            guard.guarded(works)
        return 8

    called = FunctionType(calls_what_is_given.__code__, {"__name__": DELICATE[0]})
    assert called(check) == 8


def calls_what_is_given(given: Callable[[], int]) -> int:
    return given()


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly_imported.py").write_text("import time\nends = time.monotonic() + 0.7\n"
                                                 "while time.monotonic() < ends: pass\nlast = 1\n")  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)

    def imports() -> None:
        import slowly_imported  # type: ignore[import-not-found] # noqa: F401

        never_ends()

    with Watch(Clock(0.01)) as guard, pytest.raises(OutOfTime):
        guard.guarded(imports)
    assert sys.modules.pop("slowly_imported").last == 1


def test_after_the_limit_of_memory_no_part_starts() -> None:
    with Watch(Clock(60)) as guard:
        assert not guard.is_overdue
        guard.clock.strike(megabytes=700)
        assert guard.is_overdue
        with pytest.raises(OutOfTime, match="stopped at 700 MB of memory"):
            guard.guarded(never_ends)


def test_after_the_limit_of_time_parts_may_notice_it_themselves() -> None:
    with Watch(Clock(60)) as guard:
        guard.clock.strike()
        assert not guard.is_overdue
