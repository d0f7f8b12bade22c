"""Fast: `make quick` knows every folder and every test file, and chooses what there is time for."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import tomllib
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import pytest

import quick
import sizes
from quick import ROOT, TESTS, files_of_tests, importers, needed, read_rooms, select


def test_every_test_file_is_in_a_room_or_nightly() -> None:
    missing = read_rooms().without_tests(files_of_tests())
    assert not missing, f"tests/rooms.toml: write {', '.join(missing)} below the folder it tests, or into `nightly`"


def test_a_new_file_without_a_room_is_named() -> None:
    assert read_rooms().without_tests(["test_values.py", "test_of_something_new.py"]) == ["test_of_something_new.py"]


def test_every_folder_of_the_house_is_a_room_with_tests_and_no_other_is() -> None:
    rooms = read_rooms().tests
    folders = {path.parent for package in ("vm", "sabotage", "validator") for path in (ROOT / package).rglob("*.py")}
    others = {".", "specs", "benchmarks"}
    assert {path.relative_to(ROOT).as_posix() for path in folders} | others == rooms.keys(), "see tests/rooms.toml"
    assert not [room for room, tests in rooms.items() if not tests], "these rooms have no tests"


def test_every_pattern_stands_for_a_file() -> None:
    content = tomllib.loads((TESTS / "rooms.toml").read_text(encoding="utf-8"))
    patterns = [*content["always"], *content["nightly"], *(one for tests in content["rooms"].values() for one in tests)]
    files = files_of_tests()
    assert not [pattern for pattern in patterns if not fnmatch.filter(files, pattern)]


def test_the_cheapest_tests_run() -> None:
    seconds = {"test_a.py::test_long": 9.0, "test_a.py::test_short": 1.0, "test_b.py::test_elsewhere": 99.0}
    assert select(["test_a.py"], seconds, budget=9.5).left_out == ("test_a.py::test_long",)
    assert select(["test_a.py"], seconds, budget=10.0).left_out == ()
    assert select(["test_a.py"], seconds, budget=0.5).left_out == ("test_a.py::test_short", "test_a.py::test_long")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("vm/expressions/parser.py", "test_expressions.py"),
        ("validator/engine/smt/terms.py", "test_solver_layers.py"),
        ("validator/engine/reach.py", "test_witness.py"),
        ("specs/programs/bad/SW101/typo.yaml", "test_fixtures.py"),
        ("README.md", "test_readme.py"),
        ("tests/validator/engine/test_soundness.py", "test_soundness.py"),
        ("tests/data/diagrams/a.svg", "test_house.py"),
    ],
)
def test_a_changed_file_needs_the_tests_of_its_room(path: str, expected: str) -> None:
    assert expected in needed([path], read_rooms())


def test_a_helper_needs_the_tests_that_import_it() -> None:
    assert {"test_solver_layers.py"} <= importers("systems")
    assert "test_sabotage.py" not in importers("systems")
    assert "test_example_tools.py" in importers("machines") or "test_machine_flow.py" in importers("machines")
    assert "test_engine_mutants.py" not in needed(["tests/support/engine_mistakes.py"], read_rooms()), (
        "nightly, but for a change of its own"
    )


def test_what_changed_is_the_branch_and_the_working_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    (tmp_path / "old").write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "side")
    (tmp_path / "committed").write_text("new")
    git("add", ".")
    git("commit", "-m", "second")
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    assert quick.changed_files() == ["committed"]
    (tmp_path / "old").write_text("changed")
    (tmp_path / "unknown").write_text("new")
    assert quick.changed_files() == ["committed", "old", "unknown"]


def test_rooms_are_named_by_a_part_of_their_path() -> None:
    def listed(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(TESTS / "quick.py"), "--list", "--rooms", name]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "test_solver_layers.py" in listed("engine").stdout.splitlines()
    assert "test_cache.py" in listed("gate,rules").stdout.splitlines()
    missing = listed("cellar")
    assert missing.returncode == 2
    assert "there is no room `cellar`; the rooms are ., benchmarks" in missing.stderr


@pytest.mark.parametrize("one_in", [2, 3, 4])
def test_what_is_tried_by_day_has_each_value_of_each_factor(one_in: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MANY", False)
    for lengths in product(range(2, 10), repeat=3):
        chosen = sizes.by_day(product(*map(range, lengths)), one_in)
        assert chosen[0] == (0, 0, 0)
        for factor, length in enumerate(lengths):
            assert len(chosen) < 4 * length or len({case[factor] for case in chosen}) == length, lengths
    monkeypatch.setattr(sizes, "MANY", True)
    assert sizes.by_day("abcdefg", one_in) == list("abcdefg")


def test_a_square_has_by_day_each_pair_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MANY", False)
    for lengths in [(13, 7, 7), (4, 5, 3), (2, 2, 2), (9, 1, 1)]:
        factors = [[(factor, value) for value in range(length)] for factor, length in enumerate(lengths)]
        chosen = sizes.square_by_day(*factors)
        assert len(chosen) == lengths[0] * lengths[1]
        for one, other in combinations(range(3), 2):
            assert {(case[one], case[other]) for case in chosen} == set(product(factors[one], factors[other])), lengths
    monkeypatch.setattr(sizes, "MANY", True)
    assert len(sizes.square_by_day("abc", "de", "fg")) == 12


def test_the_mark_leaves_by_day_one_in_so_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"thinned": {"one_in": pytest.mark.one_in(3)}, "plain": {}}
    items = [
        SimpleNamespace(nodeid=f"test_a.py::{name}[{number}]", get_closest_marker=marks[name].get)
        for number in range(9)
        for name in marks
    ]
    monkeypatch.setattr(sizes, "MANY", False)
    kept, left = sizes.parted_by_day(items)
    assert [one.nodeid for one in kept if "plain" not in one.nodeid] == [
        f"test_a.py::thinned[{n}]" for n in (0, 2, 5, 7)
    ]
    assert len(left) == 5
    assert all("thinned" in one.nodeid for one in left)
    monkeypatch.setattr(sizes, "MANY", True)
    assert sizes.parted_by_day(items) == (items, [])
