"""The standard streams of the process: output that nobody reads is discarded, and the command goes on to its status."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _Unread(io.FileIO):
    """A stream that discards what it is given once its reader is gone: `verify JOURNAL | head -1`.

    Else the first write behind that ends the command, with a status that says something about its work.
    """

    is_gone = False

    def write(self, data: Any, /) -> int:
        """Write to the reader, or to nobody."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self.is_gone = True
            give_up(self)
            return len(data)


def set_up_streams() -> None:
    """Let no stream of this process end it: one that is closed, has no reader, or lacks a character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller of the process has closed it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif mode == "w":
            setattr(sys, name, _lasting(getattr(sys, name)))


def is_unread() -> bool:
    """Return whether the reader of standard output is gone."""
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return isinstance(raw, _Unread) and raw.is_gone


def give_up(stream: io.FileIO | TextIO) -> None:
    """Discard all further output of a stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _lasting(stream: TextIO) -> TextIO:
    """Return a stream for the same file that outlasts its reader, and writes what it can't encode with escapes."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream.isatty():
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    raw = _Unread(stream.fileno(), "w", closefd=False)
    # With PYTHONUNBUFFERED a stream has no buffer, and what is written is seen at once.
    buffer: Any = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
