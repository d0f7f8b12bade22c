"""Reads the files that `programs` names, so that a program holds all that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.source import Path, Place

_SIGNS_OF_A_PROJECT: Final = ("stepward.toml", "pyproject.toml", ".git")
MAX_FILES: Final = 1000
"""The most files that one program reads, one that is named twice counted twice."""

_CYCLE: Final = "make a loop of steps in one program, with `max_visits`"


class _Reader(NamedTuple):
    """Where files are looked for: beside the file of a program, below its project; `around` are those being read."""

    name: str
    home: FilePath
    project: FilePath
    around: tuple[FilePath, ...]
    read: list[FilePath]

    def programs(self, data: Any, path: Path) -> Any:
        """Return the data of a program with the content of each file that it names."""
        listed = data.get("programs") if isinstance(data, dict) else None
        if not isinstance(listed, dict) or not listed:
            return data
        return {**data, "programs": {name: self._entry(one, (*path, "programs", name)) for name, one in listed.items()}}

    def _entry(self, entry: Any, path: Path) -> Any:
        if not isinstance(entry, dict):
            return entry
        if not isinstance(entry.get("file"), str):
            return self.programs(entry, path)
        place = Place((*path, "file"))
        extra = sorted(str(key) for key in entry if key != "file")
        if extra:
            message = f"`{extra[0]}` stands beside `file`"
            raise self._refused(message, "write it in the file", Place((*path, extra[0]), key=True), "SW002")
        where = self._where(entry["file"], place)
        content = self._read(where, entry["file"], place)
        inner = _Reader(self.name, where.parent, self.project, (*self.around, where), self.read)
        return {"file": where.relative_to(self.project).as_posix(), **inner.programs(content, path)}

    def _where(self, written: str, place: Place) -> FilePath:
        if FilePath(written).is_absolute():
            raise self._refused(f"`{written}` is no relative path", "write it relative to this file", place)
        where = (self.home / written).resolve()
        if not where.is_relative_to(self.project):
            raise self._refused(f"`{written}` is outside of the project", "move the file into the project", place)
        if where in self.around:
            raise self._refused(f"`{written}` calls itself: the file is read within itself", _CYCLE, place)
        return where

    def _read(self, where: FilePath, written: str, place: Place) -> dict[str, Any]:
        from stepward.vm.reading.files import read_file

        self.read.append(where)
        if len(self.read) > MAX_FILES:
            message = f"the program reads more than {MAX_FILES:,} files, counted as often as they are named"
            raise self._refused(message, "name fewer files", place, "SW004")
        try:
            documents = read_file(where)
        except OSError:
            raise self._refused(f"`{written}` can't be read", "name a file that is there", place) from None
        except ProgramError as error:
            first = error.problems[0]
            raise self._refused(f"`{written}`: {first.message}", first.help, place, first.code) from None
        if len(documents) != 1:
            raise self._refused(f"`{written}` holds {len(documents)} programs, not one", "split the file", place)
        document = documents[0]
        if document.problems:
            first = document.problems[0]
            raise self._refused(f"`{written}`: {first.message}", first.help, place, first.code)
        if not isinstance(document.data, dict):
            raise self._refused(f"`{written}` holds no program", "name a file with a program", place)
        if "inputs" not in document.data:
            message = f"`{written}` does not say its `inputs`"
            raise self._refused(message, "add `inputs` to it: `inputs: {}` if it takes none", place)
        if document.data.get("language") != 2:
            raise self._refused(f"`{written}` is not of language 2", "add `language: 2` to it", place, "SW002")
        return document.data

    def _refused(self, message: str, help: str, place: Place, code: str = "SW110") -> ProgramError:
        return ProgramError(self.name, (Problem(code, message, help, place),))


def with_files(data: Any, name: str, file: str | None) -> Any:
    """Return the data of a program in which each `file` of `programs` has its content beside it.

    `name` stands for the program in messages, `file` is the path of its own file, None for one without a file: there,
    the content is beside each `file` already, as a machine stores it. Raises ProgramError for a file that can't be
    read, or must not be: paths are relative to the file that names them, and lead out of no project.
    """
    if not isinstance(data, dict) or not isinstance(data.get("programs"), dict):
        return data
    if file is None:
        place = _unread(data, ())
        if place is None:
            return data
        message = "a program without a file of its own can't name files"
        problem = Problem("SW110", message, "write the called program in place of `file`", place)
        raise ProgramError(name, (problem,))
    own = FilePath(file).resolve()
    return _Reader(name, own.parent, _project_of(own), (own,), []).programs(data, ())


def called_files(paths: Iterable[str | FilePath]) -> list[FilePath]:
    """Return the files that programs in files name, and those that these name, as far as they can be read."""
    from stepward.vm.reading.files import LISP, read_file

    open_ends, found = [FilePath(path) for path in paths], dict[FilePath, None]()
    while open_ends:
        file = open_ends.pop()
        try:
            documents = [] if file.suffix in (*LISP, ".py") else read_file(file)
        except (OSError, ProgramError):
            continue
        for name in (name for document in documents for name in _names(document.data)):
            called = (file.parent / name).resolve()
            if called not in found and len(found) < MAX_FILES:
                found[called] = None
                open_ends.append(called)
    return list(found)


def _names(data: Any) -> Iterator[str]:
    """Yield the files that a program names as its author has written them."""
    listed = data.get("programs") if isinstance(data, dict) else None
    for entry in listed.values() if isinstance(listed, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("file"), str):
            yield entry["file"]
        else:
            yield from _names(entry)


def names_files(data: Any) -> bool:
    """Return whether a program names files, so that it is not all that it means."""
    return _unread(data, ()) is not None


def _unread(data: Any, path: Path) -> Place | None:
    """Return the place of the first file whose content is not there."""
    listed = data.get("programs") if isinstance(data, dict) else None
    for name, entry in listed.items() if isinstance(listed, dict) else ():
        here = (*path, "programs", name)
        if isinstance(entry, dict) and "file" in entry and "steps" not in entry:
            return Place((*here, "file"))
        found = _unread(entry, here)
        if found is not None:
            return found
    return None


def _project_of(file: FilePath) -> FilePath:
    """Return the folder of the project of a file: the nearest one with a sign of it, else that of the file."""
    for folder in file.parents:
        if any((folder / sign).exists() for sign in _SIGNS_OF_A_PROJECT):
            return folder
    return file.parent
