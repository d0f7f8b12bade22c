"""A probe calls functions for a scene, and notes what they return, or how they refuse."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from stepward.sabotage.invariants import Breach
from stepward.sabotage.recorded.notes import Notes, text_of
from stepward.sabotage.recorded.tabling import Table, show_tables
from stepward.vm.errors import StepwardError

T = TypeVar("T")

ENDED: Final = (KeyboardInterrupt, SystemExit, Breach)

_ADDRESS: Final = re.compile("<[^<>]* at 0x[0-9a-f]+>")


class Probe:
    """What a scene has: `chance` decides everything, `notes` has what came, `stack` ends with the scene."""

    def __init__(self, seed: str, stack: ExitStack) -> None:
        self.chance = Random(seed)
        self.notes = Notes()
        self.stack = stack
        self._folder: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the scene, which is made when it is asked for first."""
        if self._folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True)
            self._folder = os.path.realpath(self.stack.enter_context(temporary))
        return self._folder

    def path(self, name: str) -> str:
        """Return the path of a file of the scene."""
        return os.path.join(self.folder, name)

    def note(self, *values: Any) -> None:
        """Note values, without the folder."""
        self.notes.add(self._shown(" ".join(map(text_of, values))))

    def ask(self, what: str, call: Callable[..., T], *args: Any, **more: Any) -> T | None:
        """Call a function, and note its result; return that, or None where it refuses."""
        try:
            found = call(*args, **more)
        except ENDED:
            raise
        except BaseException as error:
            self.note(what, *args, more, self._refusal(error))
            return None
        self.note(what, *args, more, "->", found)
        return found

    def quietly(self, what: str, call: Callable[..., T], *args: Any, **more: Any) -> T | None:
        """Call a function, and note only that it returned something, or how it refused."""
        try:
            found = call(*args, **more)
        except ENDED:
            raise
        except BaseException as error:
            self.note(what, self._refusal(error))
            return None
        self.note(what, type(found).__name__)
        return found

    def play(self, part: Callable[[Probe], None]) -> None:
        """Play a part; note the error of a machine that fails where none may."""
        self.note(part.__name__)
        try:
            part(self)
        except ENDED:
            raise
        except BaseException as error:
            self.note("the scene ended:", self._refusal(error))

    def draw(self, *among: T) -> T:
        """Return one of some values."""
        return self.chance.choice(among)

    def some(self, share: float) -> bool:
        """Return true for a share of the draws."""
        return self.chance.random() < share

    def _refusal(self, error: BaseException) -> str:
        """Return an error as a text: the words of other libraries in it are cut."""
        name = type(error).__name__
        if not isinstance(error, StepwardError):
            return name
        text = f"{name}: {error} {getattr(error, 'help', '')}"
        for cause in _causes(error):
            if isinstance(cause, OSError):
                words = (str(cause), cause.strerror or "", (cause.strerror or "").lower())
            elif isinstance(cause, sqlite3.Error | UnicodeError):
                words = (str(cause), "", "")
            else:
                continue
            for word in words:
                text = text.replace(word, type(cause).__name__) if word else text
        return text

    def _shown(self, text: str) -> str:
        """Return a text without the folder and without addresses of objects."""
        text = text if self._folder is None else text.replace(self._folder, "FOLDER")
        return _ADDRESS.sub("object", text) if " at 0x" in text else text


class Parts(NamedTuple):
    """What scenes are made of: parts, with how often each comes, and tables, which `scenes` share."""

    parts: tuple[tuple[int, Callable[[Probe], None]], ...]
    tables: tuple[Table, ...] = ()
    scenes: int = 1

    def scene(self, seed: str, options: Mapping[str, Any]) -> Notes:
        """Play the scene of a seed, and return what came. The options are for machines, of which there are none."""
        del options
        with ExitStack() as stack:
            probe = Probe(seed, stack)
            weights, parts = zip(*self.parts, strict=True)
            (part,) = Random(f"part {seed}").choices(parts, weights)
            probe.play(part)
            show_tables(probe.notes, self.tables, seed, self.scenes)
            return probe.notes


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
