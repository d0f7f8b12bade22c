"""Runs the blocks of a page in an empty folder, one after the other, as a reader who does what it says.

- A block whose first line is a comment with a file name (`# tools.py`, `;; plan.clj`) is saved as that file.
- Any other `python` block is run. The blocks of a page share their names.
- In a `console` block each line after `$ ` is a command; what follows is its output. A line `...` stands for any
  lines, `…` for any part of a line. A command without output may print anything. `TOKEN` in a command stands for the
  resume token that was printed last.
- A comment before a block says more: `<!-- status: 1 -->` is the exit status of its last command,
  `<!-- file: NAME -->` saves the block before anything else is done, and `<!-- not run: why -->` leaves it out.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import mcp.client.stdio  # noqa: F401 - it keeps the standard error of its import, and one of CliRunner is no file
from click.testing import CliRunner

from stepward.validator.cli import main

_BLOCK = re.compile(r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
_FILE = re.compile(r"(?:#|//|;;) ([\w./-]+\.\w+|\.[\w./-]+)\n")
_TOKEN = re.compile(r"runs resume (\S+) --payload")
_SHELL = re.compile(r"[|<>&$*`;]")
_QUOTED = re.compile(r"'[^']*'")
"""What a shell takes as it is."""


class Block(NamedTuple):
    """A fenced block: its language, its text, the note of the comment before it, and its line."""

    language: str
    text: str
    note: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if its first line names one."""
        if self.note.startswith("file: "):
            return self.note.removeprefix("file: ")
        named = _FILE.match(self.text)
        return named[1] if named and self.language in ("yaml", "python", "toml", "json", "clojure") else None

    @property
    def is_run(self) -> bool:
        return not self.note.startswith("not run: ") and self.language in ("console", "python")

    def commands(self) -> list[tuple[str, str]]:
        """Return the commands of a console block, each with the output that the page shows."""
        parts = re.split(r"^\$ ", self.text, flags=re.M)
        assert not parts[0], f"a console block begins with `$ `: {parts[0]!r}"
        joined = [part.replace("\\\n", "") for part in parts[1:]]
        return [(command, output) for command, _, output in (part.partition("\n") for part in joined)]


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page."""
    return [
        Block(one["language"], one["text"], one["note"] or "", text.count("\n", 0, one.start("text")))
        for one in _BLOCK.finditer(text)
    ]


def matches(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("…"))) + r"[ ]*\n"
        for line in shown.strip().splitlines()
    )
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def _without_input(command: str) -> tuple[str, bytes | None]:
    """Return a command without the file that it reads (`< turns.clj`), and what is in the file."""
    alone, _, name = command.rpartition(" < ")
    return (alone, Path(name).read_bytes()) if alone and Path(name).is_file() else (command, None)


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder."""

    folder: Path
    replacements: dict[str, str] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    printed: str = ""

    def read(self, blocks: list[Block]) -> None:
        """Do it; fails with the line of the page where something else comes out."""
        os.chdir(self.folder)
        before = set(sys.modules)
        sys.path.insert(0, str(self.folder))
        try:
            for block in sorted(blocks, key=lambda one: not one.note.startswith("file: ")):
                self._do(block)
        finally:
            sys.path.remove(str(self.folder))
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]

    def _do(self, block: Block) -> None:
        text = block.text
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        block = block._replace(text=text)
        if block.file is not None:
            path = Path(block.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif block.is_run and block.language == "python":
            exec(compile("\n" * block.line + text, "page", "exec"), self.names)
        elif block.is_run:
            self._type(block)

    def _type(self, block: Block) -> None:
        commands = block.commands()
        for number, (command, shown) in enumerate(commands):
            expected = int(block.note.removeprefix("status: ")) if block.note and number + 1 == len(commands) else 0
            token = _TOKEN.findall(self.printed)
            status, self.printed = self._run(command.replace("TOKEN", token[-1]) if token else command)
            where = f"line {block.line}: {command}\n{self.printed}"
            assert status == expected, f"{where}\nended with {status}"
            assert not shown.strip() or matches(shown, self.printed), f"{where}\nis not\n{shown}"

    def _run(self, command: str) -> tuple[int, str]:
        words = shlex.split(command, comments=True)
        if words[0] == "cd":
            os.chdir(words[1])
            return 0, ""
        alone, text = _without_input(command)
        if words[0] == "stepward" and not _SHELL.search(_QUOTED.sub("", alone)):
            # A process of its own would take most of a second to start.
            result = CliRunner().invoke(main, shlex.split(alone, comments=True)[1:], input=text, catch_exceptions=False)
            return result.exit_code, result.output
        if words[0] == "python" and len(words) == 2 and Path(words[1]).is_file():
            # What it imports is here already: the SDK of MCP alone takes a second.
            with redirect_stdout(StringIO()) as printed:
                runpy.run_path(words[1], run_name="__main__")
            return 0, printed.getvalue()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        is_plain = words[0] == "python" and not _SHELL.search(_QUOTED.sub("", command))
        ran = subprocess.run(
            [sys.executable, *words[1:]] if is_plain else command, shell=not is_plain, text=True,
            env={**os.environ, "PATH": path}, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return ran.returncode, ran.stdout
