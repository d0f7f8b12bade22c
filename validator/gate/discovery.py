"""Finds programs: walks folders, respects .gitignore and excludes, and then reads each candidate."""

from __future__ import annotations

import mmap
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Final

from stepward.validator.files import absolute, shown_name, why_not
from stepward.validator.gate.look_alikes import misspells_steps, resemblance
from stepward.validator.gate.paths import Patterns
from stepward.validator.gate.settings import Configurations
from stepward.validator.result import AdvisedError
from stepward.vm.errors import DocumentError, Problem, ProgramError
from stepward.vm.reading.document import Document
from stepward.vm.reading.files import LISP, decode, read_bytes, read_format
from stepward.vm.reading.limits import MAX_BYTES

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".py", *LISP})
_NEVER: Final = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
_FIELDS_OF_PROGRAMS_ALONE: Final = frozenset({"step", "inputs", "guardrails", "max_steps", "max_tokens", "max_cost"})


class TargetError(AdvisedError):
    """A target of the check does not exist, or can't be read."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may contain programs; a file that the user named must contain one.

    `is_excluded` says that the user named this file or folder, and that the configuration excludes it.
    """

    path: FilePath
    is_named: bool = False
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file: programs, or why it can't be read, or neither when it is no file of programs.

    `not_literal` are the lines of the programs in Python source that can't be read without running it.
    """

    documents: tuple[Document, ...] = ()
    error: DocumentError | None = None
    text: str = ""
    not_literal: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the programs stands in other files, so that the bytes of this one say all."""
        from stepward.vm.language.called_files import names_files

        return not any(names_files(one.data) for one in self.documents)


# -- walking -----------------------------------------------------------------------------------------------------------


def find_candidates(targets: Iterable[str | FilePath], configurations: Configurations) -> Iterator[Candidate]:
    """Yield the files among the targets, and the candidates in their folders, each file once and in a fixed order.

    The patterns of the configuration hold for a target as well: it is then yielded as excluded. The defaults, such as
    hidden folders, and .gitignore hold only for what is found in a folder.

    Raises TargetError for a target that does not exist, or a folder that can't be read.
    """
    real_paths: set[str] = set()
    walk = _Walk(configurations)
    paths = [(absolute(target), _is_folder(target)) for target in targets]
    named = {os.path.realpath(path) for path, is_folder in paths if not is_folder}
    for path, is_folder in paths:
        if configurations.above(path if is_folder else path.parent).excluded.verdict(path, is_folder=is_folder):
            yield Candidate(path, is_named=True, is_excluded=True)
            continue
        for file in walk.files(path) if is_folder else [path]:
            real = os.path.realpath(file)
            if real not in real_paths:
                real_paths.add(real)
                yield Candidate(file, is_named=real in named)


def _is_folder(target: str | FilePath) -> bool:
    if not str(target):
        raise TargetError("an empty text is not a path", "correct the path; is a variable of your shell empty?")
    try:
        return stat.S_ISDIR(absolute(target).stat().st_mode)
    except (OSError, ValueError) as error:
        raise TargetError(f"`{target}` can't be checked: {why_not(error)}", "correct the path") from None


class _Walk:
    """Searches folders; a folder that several links lead to is searched once."""

    def __init__(self, configurations: Configurations) -> None:
        self._configurations = configurations
        self._seen: set[str] = set()

    def files(self, root: FilePath) -> Iterator[FilePath]:
        pending = [(root, _rules_above(root))]
        while pending:
            folder, rules = pending.pop()
            real = os.path.realpath(folder)
            if real in self._seen:
                continue
            self._seen.add(real)
            entries = _entries(folder)
            if any(entry.name == ".gitignore" for entry in entries):
                rules = [*rules, _ignore_file(folder / ".gitignore")]
            excluded = self._configurations.above(folder).excluded
            subfolders = []
            for entry in entries:
                path = folder / entry.name
                if _is(entry.is_dir):
                    if not self._is_left_out(path, rules, excluded, is_folder=True):
                        subfolders.append((path, rules))
                elif path.suffix in SUFFIXES and _is(entry.is_file) and not self._is_left_out(path, rules, excluded):
                    yield path
            pending.extend(reversed(subfolders))

    def _is_left_out(
        self, path: FilePath, rules: list[Patterns], excluded: Patterns, *, is_folder: bool = False
    ) -> bool:
        if is_folder:
            if path.name in _NEVER or os.path.exists(path / "pyvenv.cfg"):
                return True
            if path.name.startswith(".") and self._configurations.above(path.parent).exclude is None:
                return True
        if excluded.verdict(path, is_folder=is_folder):
            return True
        verdicts = (rule.verdict(path, is_folder=is_folder) for rule in reversed(rules))
        return next((verdict for verdict in verdicts if verdict is not None), False)


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a link whose target can't be accessed
        return False


def _entries(folder: FilePath) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise TargetError(f"`{shown_name(folder)}` can't be read: {why_not(error)}", "exclude the folder") from None


def _rules_above(root: FilePath) -> list[Patterns]:
    """Return the .gitignore files from the root of the git work tree down to the parent of a folder."""
    above: list[FilePath] = []
    for folder in (root, *root.parents):
        if folder != root:
            above.append(folder)
        if os.path.exists(folder / ".git"):
            break
    else:
        return []
    files = [folder / ".gitignore" for folder in reversed(above)]
    rules = [_ignore_file(file) for file in files if os.path.isfile(file)]
    # An ignored folder that the user names is searched all the same.
    return [] if any(rule.verdict(root, is_folder=True) for rule in rules) else rules


def _ignore_file(path: FilePath) -> Patterns:
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        text = ""
    return Patterns(path.parent, tuple(text.split("\n")))


# -- looking inside ----------------------------------------------------------------------------------------------------


def read_candidate(candidate: Candidate, *, skip_non_programs: bool = False) -> Contents:
    """Return the contents of a file; raises TargetError when the file can't be read.

    A file that the user named is an error when it is no program, unless `skip_non_programs` is set.
    """
    path = candidate.path
    must_be_program = candidate.is_named and not skip_non_programs
    content = candidate_bytes(path)
    if content is None:
        return _too_large(path, must_be_program=must_be_program)
    return read_content(content, str(path), shown_name(path), must_be_program=must_be_program)


def candidate_bytes(path: FilePath) -> bytes | None:
    """Return the content of a file, or None when it is too large; raises TargetError when it can't be read."""
    try:
        if stat.S_ISREG(path.stat().st_mode) and path.stat().st_size > MAX_BYTES:
            return None
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TargetError(f"`{shown_name(path)}` can't be read: {why_not(error)}", "exclude the file") from None


def read_content(content: bytes, name: str, label: str, *, must_be_program: bool) -> Contents:
    """Return the contents of a file from its bytes; the suffix of `name` is the format, messages use `label`."""
    suffix = os.path.splitext(name)[1]
    if is_ruled_out(content, suffix, must_be_program=must_be_program):
        return Contents()
    text = ""
    not_literal: tuple[int, ...] = ()
    try:
        text = decode(content, name)
        if suffix == ".py":
            from stepward.validator.gate.python_source import read_python

            documents, not_literal = read_python(name, text)
        else:
            documents = read_format(name, text)
        documents = [replace(one, file=name) for one in documents]
    except ProgramError as error:
        is_meant = must_be_program or has_steps_on_top(content, suffix)
        if not is_meant:
            return Contents()
        return Contents(error=error, text=shown_text(content))
    programs = tuple(document for document in documents if _is_program(document.data))
    if suffix == ".py":
        programs = tuple(documents)
    if not programs and must_be_program:
        if len(documents) == 1 and _resembles_a_program(documents[0].data):
            programs = tuple(documents)  # the complaints of the model help more than that it is no program
        else:
            return Contents(error=_not_a_program(name, label, text, documents, not_literal), text=text)
    return Contents(programs, None, text if programs else "", not_literal)


def documents_in(text: str, path: FilePath) -> tuple[Document, ...]:
    """Return the programs in a text in the format of a file; raises DocumentError when it can't be read."""
    contents = read_content(text.encode(), str(path), str(path), must_be_program=True)
    if contents.error is not None:
        raise contents.error
    return contents.documents


def is_ruled_out(content: bytes, suffix: str, *, must_be_program: bool) -> bool:
    """Return whether a file can be skipped unread: it can't hold a program, and the user did not name it.

    YAML and JSON may write the word `steps` with escapes. Python source is not run, so there it has to be plain.
    """
    if suffix in LISP:  # most Clojure is for other machines: a program for this one calls a tool
        return not must_be_program and _TOOL_CALL.search(content) is None
    if must_be_program or b"steps" in content:
        return False
    if suffix == ".py":
        return _PROGRAM_CALL.search(content) is None
    # `steps` may be misspelt: the words around it tell that a file may be a program.
    if b"name" in content and b"type" in content and (b"tools" in content or b"guardrails" in content):
        return False
    return _ESCAPED_LETTER.search(content) is None


def shown_text(content: bytes) -> str:
    """Return the text of a file for reports; bytes that are not UTF-8 are replaced."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content[:MAX_BYTES].decode("utf-8-sig", "replace")


def _is_program(data: Any) -> bool:
    return isinstance(data, dict) and ("steps" in data or misspells_steps(data))


def _resembles_a_program(data: Any) -> bool:
    if isinstance(data, list):
        return any(isinstance(entry, dict) and "id" in entry and "type" in entry for entry in data)
    return isinstance(data, dict) and "policy" not in data and not _FIELDS_OF_PROGRAMS_ALONE.isdisjoint(data)


def _not_a_program(
    name: str, label: str, text: str, documents: list[Document], not_literal: tuple[int, ...]
) -> ProgramError:
    data = documents[0].data if documents else None
    help = "a program is a mapping with a list of `steps`; `stepward check --skip-non-programs` leaves other files out"
    reason = "it has no `steps`"
    if isinstance(data, dict) and "policy" in data:
        reason, help = (
            "it is a policy",
            f"`stepward check --policy {shlex.quote(label)} PROGRAM` checks a program under it",
        )
    elif not_literal:
        reason = f"the program in line {not_literal[0]} is put together when it runs"
        help = "`stepward check --object module:NAME` checks what code makes; or write the dict out"
    elif looks := resemblance(data, text if name.endswith(".py") else ""):
        reason, help = looks
    elif name.endswith(".py"):
        reason = "no dict in it is one"
        help = "write `Program.from_dict({...})` with the dict, or use `stepward check --object module:NAME`"
    elif data is None:
        reason = "it is empty"
    return ProgramError(name, (Problem("SW001", f"`{label}` is not a program: {reason}", help),))


def _too_large(path: FilePath, *, must_be_program: bool) -> Contents:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if not must_be_program and not has_steps_on_top(content, path.suffix):
            return Contents()
    try:
        read_bytes(path, str(path))
    except ProgramError as error:
        return Contents(error=error)
    raise AssertionError("the file is over the limit")


_INDENT: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*|%[^\n]*|---[^\n]*)?\r?\n)*( *)")
_BRACE: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n|---)*\{")
_ESCAPED_LETTER: Final = re.compile(rb"\\(?:(?:x|u00|U000000)(?:65|7[034])|\r?\n)")
"""An escape of a letter of `steps`, or of a line end inside it."""

_SIGN: Final = re.compile(
    rb"[{}\[\]]|(?P<key>(?<![\w-])[\"']?steps[\"']?\s*:)|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\n]*+'", re.DOTALL
)
_PROGRAM_CALL: Final = re.compile(rb"\bProgram\s*[.(]")
"""What Python source without the word `steps` has if it makes a program of a value."""

_TOOL_CALL: Final = re.compile(rb"\(\s*tool/")
_FROM_DICT: Final = re.compile(rb"\bfrom_dict\s*\(")


def has_steps_on_top(content: bytes | mmap.mmap, suffix: str) -> bool:
    """Return whether a text that can't be parsed seems to have `steps` at its top level.

    The search is by patterns, in memory that does not grow with the text.
    """
    if suffix in LISP:
        return _TOOL_CALL.search(content) is not None
    if content.find(b"steps") < 0:
        return False
    if suffix == ".py":
        return _FROM_DICT.search(content) is not None
    if suffix == ".json" or _BRACE.match(content):
        return _has_steps_in_first_braces(content)
    indent = _INDENT.match(content)
    assert indent is not None, "the pattern matches the empty text"
    return (
        re.search(rb"^(?:\xef\xbb\xbf)?%b([\"']?)steps\1[ \t]*:(?:\s|$)" % indent[1], content, re.MULTILINE) is not None
    )


def _has_steps_in_first_braces(content: bytes | mmap.mmap) -> bool:
    depth = 0
    for bracket in _SIGN.finditer(content):
        if bracket["key"] and depth == 1:
            return True
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(bracket[0], 0)
    return False
