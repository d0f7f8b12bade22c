"""The folder of the cache: how large it gets, who shares it, what an interrupted run leaves."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from caches import entries, is_hit, kept_bad
from commands import BAD, CLEAN, check, put
from paths import STEPWARD
from stepward.validator.gate import cache as cache_module
from stepward.validator.gate.cache import FOLDER
from stepward.validator.gate.checking import Run

pytestmark = pytest.mark.usefixtures("in_own_project", "warm")


@pytest.mark.parametrize("how", ["file", "link", "closed"])
def test_a_folder_that_is_none_is_done_without(how: str, checked: list[str], tmp_path: Path) -> None:
    put("good.yaml", CLEAN)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if how == "file":
        Path(FOLDER).touch()
    elif how == "link":
        Path(FOLDER).symlink_to(elsewhere)
    else:
        Path(FOLDER).symlink_to("/proc/self/nothing")
    for _ in range(2):
        assert not is_hit(checked)
        assert check().stderr == ""
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("way", ["--no-cache", "STEPWARD_NO_CACHE"])
def test_without_the_cache_nothing_is_read_or_stored(
    way: str, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("good.yaml", CLEAN)
    options = [way] if way.startswith("-") else []
    if not options:
        monkeypatch.setenv(way, "1")
    assert not is_hit(checked, *options)
    assert not Path(FOLDER).exists()
    monkeypatch.delenv("STEPWARD_NO_CACHE", raising=False)
    check()
    if not options:
        monkeypatch.setenv(way, "1")
    assert not is_hit(checked, *options)


def test_what_was_not_needed_for_the_longest_time_goes_first(
    checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        put(f"p{number}.yaml", CLEAN.replace("good", f"p{number}"))
    check()
    now = time.time()
    names = {}
    for number in range(6):
        before = set(entries())
        check(f"p{number}.yaml")
        (names[number],) = set(entries()) - before
        os.utime(names[number], (now - 10**6 + number,) * 2)
    check("p0.yaml")  # it is in use: that makes it new
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 10)
    put("p6.yaml", CLEAN)
    check("p6.yaml")
    left = set(entries())
    assert len(left) == 10
    assert [number for number in names if names[number] not in left] == [1, 2, 3]
    size = sum(path.stat().st_size for path in left)
    monkeypatch.setattr(cache_module, "MAX_BYTES", size // 2)
    put("p7.yaml", CLEAN)
    check("p7.yaml")
    assert sum(path.stat().st_size for path in entries()) <= size // 2
    assert is_hit(checked, "p7.yaml")


def test_what_a_run_left_half_written_goes_in_time() -> None:
    kept_bad()
    old, new = Path(FOLDER, f"{'a' * 64}.x"), Path(FOLDER, f"{'b' * 64}.x")
    foreign = Path(FOLDER, "notes.txt")
    for path in (old, new, foreign):
        path.touch()
    for path in (old, foreign):
        os.utime(path, (0, 0))
    put("good.yaml", CLEAN)
    check()
    assert [path.exists() for path in (old, new, foreign)] == [False, True, True]


def test_a_large_result_is_not_stored(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("bad.yaml", BAD)
    monkeypatch.setattr(cache_module, "MAX_ENTRY_BYTES", 300)
    for _ in range(2):
        assert not is_hit(checked)


@pytest.mark.slow
def test_many_runs_share_a_folder() -> None:
    for number in range(20):
        put(f"p{number}.yaml", BAD.replace("gone", f"gone{number}"))
    command = [STEPWARD, "check", "--output-format=concise"]
    for _ in range(2):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        told = {run.communicate(timeout=120) for run in runs}
        assert len(told) == 1
        assert {run.returncode for run in runs} == {1}
    ((out, err),) = told
    assert (out.count("SW101"), err) == (20, "")
    assert {path.name for path in Path(FOLDER).iterdir()} == {
        ".gitignore",
        "CACHEDIR.TAG",
        *(path.name for path in entries()),
    }


def test_an_interrupted_run_keeps_what_it_has(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.yaml", CLEAN)
    put("b.yaml", CLEAN)
    real = Run._check_file

    def broken_off(self: Run, candidate: object, shown: str) -> None:
        if shown == "b.yaml":
            raise KeyboardInterrupt
        real(self, candidate, shown)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_check_file", broken_off)
        assert check().exit_code == 130
    checked.clear()
    check()
    assert checked == ["b.yaml"]
