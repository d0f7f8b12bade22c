"""What is read of random files: programs that name others, and files that are no programs."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes, text_of
from stepward.sabotage.recorded.plain import steady
from stepward.vm.errors import DocumentError
from stepward.vm.language.called_files import names_files
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.writing import put

NAMES: Final = ("a.yaml", "sub/b.yaml", "c.json", "sub/deep/d.yaml", "e.clj")
NAMED: Final = (
    *("a.yaml", "a.yaml", "sub/b.yaml", "./sub/../a.yaml", "c.json", "../a.yaml", "../../main.yaml", "main.yaml"),
    *("nowhere.yaml", "/a.yaml", "sub", "../../../out.yaml", "deep/d.yaml", "sub/deep/d.yaml", "b.yaml", "e.clj", ""),
)
ODD: Final[tuple[bytes, ...]] = (
    *(b"", b"[1]", b"text", b"\xff\xfe", b"\xef\xbb\xbfname: x\n", b"name: a\nname: b\n", b"{", b"a: 1\n---\nb: 2\n"),
    *(
        b"name: \xc3\xa9\xe9\n",
        b"(tool/get {:n 1})",
        b"(tool/get",
        b"policy: p\n",
        b"policy: p\nallow: [get]\n",
        b"\n\n\xe9",
    ),
)


def show_files(notes: Notes, folder: Path, chance: Random) -> None:
    """Note what is read of files in a folder."""
    home = folder.resolve() / "project"
    (home / "sub" / "deep").mkdir(parents=True)
    for sign in ("stepward.toml", "sub/pyproject.toml", "sub/deep/.git"):
        if chance.random() < 0.3:
            (home / sign).write_text("", encoding="ascii")
    for name in NAMES:
        if chance.random() < 0.85:
            (home / name).write_bytes(_content(chance, chance.random() < 0.15, chance.random() < 0.35))
    main = home / chance.choice(("main.yaml", "sub/main.yaml"))
    data = _program(chance, 1 + (chance.random() < 0.3))
    main.write_text(json.dumps(data), encoding="utf-8")
    notes.add("names files", names_files(data))
    readers: tuple[Callable[[Path], Any], ...] = (Program.load, Program.load_all, Policy.load)
    for path in (main, *(home / name for name in NAMES)):
        for reader in readers if path != main else readers[:1]:
            notes.add(path.relative_to(home).as_posix(), _read(reader, path).replace(str(folder.resolve()), "FOLDER"))
    _show_written(notes, home, chance)


def _read(reader: Callable[[Path], Any], path: Path) -> str:
    try:
        found = reader(path)
    except DocumentError as error:
        return text_of((error.name, [steady(problem) for problem in error.problems]))
    except OSError as error:
        return type(error).__name__
    return text_of([(one.to_data(), one.document.file) for one in (found if isinstance(found, list) else [found])])


def _show_written(notes: Notes, home: Path, chance: Random) -> None:
    """Note what is there after a file was written over another, or where it can't be."""
    path = home / chance.choice(("new.txt", "a.yaml", "sub", "none/new.txt"))
    mode = chance.choice((None, 0o600, 0o640))
    try:
        put(path, b"content", mode=mode)
        notes.add("written", path.read_bytes(), mode and stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        notes.add("written", type(error).__name__)
    notes.add(sorted(one.name.split(".", 1)[0] for one in home.iterdir()))


def _content(chance: Random, is_odd: bool, calls: bool) -> bytes:
    if is_odd:
        return chance.choice(ODD)
    data = _program(chance, int(calls))
    match chance.choice(("", "", "", "", "inputs", "language", "two")):
        case "inputs":
            del data["inputs"]
        case "language":
            data["language"] = chance.choice((1, None, 3))
        case "two":
            return (json.dumps(data) + "\n---\n" + json.dumps(data)).encode()
    return json.dumps(data, indent=chance.choice((None, 1))).encode()


def _program(chance: Random, calls: int) -> dict[str, Any]:
    """Return a program that calls others in files."""
    names = [f"p{number}" for number in range(calls)]
    listed: dict[str, Any] = {name: {"file": chance.choice(NAMED)} for name in names}
    if names and chance.random() < 0.15:
        listed[names[0]] |= chance.choice(({"name": "x"}, {"steps": []}, {"file": 7}))
    steps: list[dict[str, Any]] = [
        {"id": f"c{number}", "type": "call", "program": name} for number, name in enumerate(names)
    ]
    data = {"name": "it", "language": 2, "inputs": {}, "steps": [*steps, {"id": "last", "type": "end"}]}
    return {**data, "programs": listed} if listed else data
