"""Reads the documents of a file: size and encoding are checked before anything is parsed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Final

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document
from stepward.vm.reading.limits import MAX_BYTES
from stepward.vm.reading.source import LineIndex


def read_file(path: str | FilePath) -> list[Document]:
    """Return the documents of a file: YAML, JSON, or a Lisp program (`.clj`, `.ptc`); messages name its path.

    Raises ProgramError (SW001, SW004) if its content can't be read, OSError if there is no file.
    """
    name = str(path)
    return [replace(one, file=name) for one in read_format(name, read_bytes(FilePath(path), name))]


def read_bytes(path: FilePath, name: str) -> str:
    """Return the text of a file; raises ProgramError if it is too large or not UTF-8."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        message = f"the file has {size:,} bytes; a program has at most {MAX_BYTES:,}"
        raise ProgramError(name, (Problem("SW004", message, "split the program, or move data out of it"),))
    # Bounded, too: the file may grow meanwhile, and a device has no size at all.
    with path.open("rb") as file:
        return decode(file.read(MAX_BYTES + 1), name)


def decode(content: bytes, name: str) -> str:
    """Return the text of UTF-8 bytes, without a byte order mark; raises ProgramError if they are not UTF-8."""
    if len(content) > MAX_BYTES:
        message = f"the text has more bytes than a program may have: {MAX_BYTES:,}"
        raise ProgramError(name, (Problem("SW004", message, "split the program, or move data out of it"),))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        span = LineIndex(before).span(len(before), len(before))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise ProgramError(name, (Problem("SW001", message, "save the file as UTF-8", span=span),)) from None


LISP: Final = (".clj", ".ptc")
"""The ends of the names of files with Lisp programs."""


def read_format(name: str, text: str) -> list[Document]:
    """Return the documents of a text in the format that the name of its file says; raises ProgramError."""
    if name.endswith(LISP):
        from stepward.vm.lisp.compiling.document import read_lisp

        return [read_lisp(name, text)]
    return read_text(name, text, is_json=name.endswith(".json"))


def read_text(name: str, text: str, *, is_json: bool) -> list[Document]:
    """Return the documents of a text in JSON or YAML; raises the ProgramError of their readers."""
    if is_json:
        from stepward.vm.reading.json_format import read_json

        return [read_json(name, text)]
    from stepward.vm.reading.yaml_format import read_yaml

    return read_yaml(name, text)
