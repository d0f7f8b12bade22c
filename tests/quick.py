"""`make quick`: lint, types, and the tests that a change needs, in under 30 seconds on two cores.

What has changed is what Git says: the working tree, and the commits since the branch left `main`. `ROOM=engine` names
rooms by hand instead, separated by commas. `rooms.toml` says which tests a room needs, and `seconds.json` what they
take: the cheapest run, as many as there is time for. The others are counted, never forgotten in silence.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from measured import recorded

TESTS = Path(__file__).parent
ROOT = TESTS.parent
BUDGET = 12.0
"""CPU seconds of recorded tests: with two workers, their start, lint and cold types, that fits into 30 seconds."""
LIMIT = 30.0
IMPORT = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)


class Rooms(NamedTuple):
    """What `rooms.toml` says, with test files by name."""

    always: tuple[str, ...]
    nightly: tuple[str, ...]
    tests: dict[str, tuple[str, ...]]

    def of_file(self, path: str) -> str:
        """Return the room of a changed file: the innermost folder that is one."""
        return next(str(one) for one in PurePosixPath(path).parents if str(one) in self.tests)

    def named(self, name: str) -> list[str]:
        """Return the rooms that a name stands for: `engine` is the folder of this name, and what is below it."""
        return [room for room in self.tests if f"/{name}/" in f"/{room}/"]

    def without_tests(self, files: Iterable[str]) -> list[str]:
        """Return the test files that no room, nor `nightly`, names."""
        named = {*self.always, *self.nightly, *(file for tests in self.tests.values() for file in tests)}
        return sorted(set(files) - named)


class Selection(NamedTuple):
    """Test files to run, and functions of them that take too long."""

    files: tuple[str, ...]
    left_out: tuple[str, ...]


def read_rooms() -> Rooms:
    """Return the rooms, with the files that their patterns stand for, in the order of the list."""
    content = tomllib.loads((TESTS / "rooms.toml").read_text(encoding="utf-8"))
    files = files_of_tests()

    def meant(patterns: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file for pattern in patterns for file in files if fnmatch(file, pattern)))

    tests = {room: meant(patterns) for room, patterns in content["rooms"].items()}
    return Rooms(meant(content["always"]), meant(content["nightly"]), tests)


def files_of_tests() -> list[str]:
    return sorted(paths_of_tests())


def paths_of_tests() -> dict[str, str]:
    """Return where each test file is, by its name: no two have one name."""
    return {path.name: path.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py")}


def git(*words: str) -> list[str]:
    """Return the lines that Git says, none where it can't say anything."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files() -> list[str]:
    """Return what differs from the commit at which this branch left the main one, and what Git does not know yet."""
    bases = (git("merge-base", "HEAD", branch) for branch in ("main", "origin/main", "origin/HEAD"))
    base = next((lines[0] for lines in bases if lines), "HEAD")
    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def importers(helper: str) -> set[str]:
    """Return the test files that import a helper, themselves or through another one."""
    imports = {path.stem: set(IMPORT.findall(path.read_text(encoding="utf-8"))) for path in TESTS.rglob("*.py")}
    found, left = {helper}, [helper]
    while left:
        name = left.pop()
        new = {other for other, names in imports.items() if name in names} - found
        found |= new
        left.extend(new)
    return {f"{name}.py" for name in found if name.startswith("test_")}


def needed(paths: Iterable[str], rooms: Rooms) -> list[str]:
    """Return the test files that a change of these files needs."""
    found = dict.fromkeys(rooms.always)
    for path in paths:
        below = PurePosixPath(path)
        if below.parts[0] != "tests":
            found.update(dict.fromkeys(rooms.tests[rooms.of_file(path)]))
        elif below.name in files_of_tests():
            found[below.name] = None
        elif below.suffix == ".py" and "data" not in below.parts:
            found.update(dict.fromkeys(sorted(importers(below.stem) - set(rooms.nightly))))
    return list(found)


def select(files: Iterable[str], seconds: dict[str, float], budget: float = BUDGET) -> Selection:
    """Choose the cheapest tests of some files, as many as the budget has room for. What has no record is cheap."""
    chosen = tuple(files)
    left_out = []
    for name, taken in sorted(seconds.items(), key=lambda entry: entry[1]):
        if name.partition("::")[0] in chosen:
            budget -= taken
            if budget < 0:
                left_out.append(name)
    return Selection(chosen, tuple(left_out))


def _at(name: str, where: dict[str, str]) -> str:
    file, _, function = name.partition("::")
    return f"{where[file]}::{function}"


def commands(selection: Selection, workers: int) -> list[tuple[Sequence[str], Path]]:
    """Return what to run and where, in order."""
    programs = Path(sys.executable).parent
    packages = [
        word for package in ("vm", "sabotage", "validator", "testing") for word in ("-p", f"stepward.{package}")
    ]
    where = paths_of_tests()
    tests = [where[file] for file in selection.files]
    deselected = [word for name in selection.left_out for word in ("--deselect", _at(name, where))]
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "-n", str(workers), "--dist", "worksteal"]
    return [
        ([f"{programs}/ruff", "format", "--check", "--quiet", "."], ROOT),
        ([f"{programs}/ruff", "check", "--quiet", "."], ROOT),
        ([f"{programs}/mypy", "--config-file", "../pyproject.toml", *packages], ROOT / ".typing"),
        ([*pytest, "-m", "not slow", *tests, *deselected], ROOT),
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make quick", description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", default="", help="rooms by hand, separated by commas, instead of what has changed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="say which tests would run, and run none")
    options = parser.parse_args(arguments)
    rooms = read_rooms()
    if options.rooms:
        wanted = {name: rooms.named(name.strip("/")) for name in options.rooms.split(",")}
        for name in (name for name, found in wanted.items() if not found):
            print(f"there is no room `{name}`; the rooms are {', '.join(rooms.tests)}", file=sys.stderr)
            return 2
        about = list(dict.fromkeys(room for found in wanted.values() for room in found))
        files = list(dict.fromkeys([*rooms.always, *(file for room in about for file in rooms.tests[room])]))
    else:
        changed = changed_files()
        about = sorted({rooms.of_file(path) for path in changed if not path.startswith("tests/")})
        files = needed(changed, rooms)
    selection = select(files, recorded())
    print(f"rooms: {', '.join(about) or 'none'}; {len(selection.files)} test files", flush=True)
    print(f"too long for this: {', '.join(selection.left_out) or 'none'}, and what is marked slow", flush=True)
    if options.list:
        print("\n".join(selection.files))
        return 0
    return run(selection, options.workers)


def run(selection: Selection, workers: int) -> int:
    """Run everything, stop at the first that fails, and return its exit status."""
    start = time.monotonic()
    for command, folder in commands(selection, workers):
        status = subprocess.run(command, cwd=folder, check=False).returncode
        if status:
            return status
    taken = time.monotonic() - start
    print(f"{taken:.0f} s; `make test` runs all tests")
    if taken > LIMIT and os.getloadavg()[0] <= workers + 1:
        print(f"that is more than {LIMIT:.0f} s: `make seconds FILES=...` records what a test takes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
