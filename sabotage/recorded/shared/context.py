"""The context of scenes without an environment: chance, notes, a folder, and replacements that last for one act."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import ExitStack
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.tabling import Table, show_tables

T = TypeVar("T")

MISSING_FILE: Final = os.strerror(2).lower()
"""What this computer says of a file that is not there."""


class Hiding(Notes):
    """Notes in which some texts, which depend on the computer, have others in their place."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {MISSING_FILE: "it is not there"}

    def add(self, *values: Any) -> None:
        """Add a note."""
        super().add(*values)
        for text, instead in self.hidden.items():
            self.texts[-1] = self.texts[-1].replace(text, instead)


class SceneContext:
    """What a scene has: `chance` decides everything, `notes` has what came. All that an act changes ends with `stack`.

    `options` are for machines.
    """

    def __init__(self, seed: str, stack: ExitStack, options: Mapping[str, Any]) -> None:
        self.chance = Random(seed)
        self.notes = Hiding()
        self.stack = self._whole = stack
        self.options = options
        self._folder: Path | None = None
        self._runner: asyncio.Runner | None = None
        self._files = 0

    # -- what comes ----------------------------------------------------------------------------------------------------

    def do(self, what: object, work: Callable[..., T], *, has_own_words: bool = False) -> T | None:
        """Note what a call comes to; return it, or None for an error. Errors with words of ours keep them."""
        try:
            found = work()
        except Exception as error:
            if has_own_words and type(error) in (TypeError, ValueError):
                self.notes.add(what, type(error).__name__, str(error))
            else:
                self.notes.add(what)
                self.notes.add_error(error)
            return None
        self.notes.add(what, found)
        return found

    def quiet(self, work: Callable[..., T]) -> T | None:
        """Return what a call comes to, without a note of it; an error is noted."""
        try:
            return work()
        except Exception as error:
            self.notes.add_error(error)
            return None

    def wait(self, awaited: Awaitable[T]) -> T:
        """Return what is awaited, in the event loop of the scene."""
        if self._runner is None:
            self._runner = self._whole.enter_context(asyncio.Runner())

        async def waiting() -> T:
            return await awaited

        return self._runner.run(waiting())

    # -- the world -----------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """A folder of the scene, which no note names."""
        if self._folder is None:
            self._folder = Path(self._whole.enter_context(tempfile.TemporaryDirectory())).resolve()
            self.notes.hidden[str(self._folder)] = "FOLDER"
        return self._folder

    def file(self, content: str | bytes | None = None, ending: str = "") -> Path:
        """Return a new name in the folder, and write the file if there is a content."""
        self._files += 1
        path = self.folder / f"file{self._files}{ending}"
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def swap(self, owner: Any, name: str, value: Any) -> None:
        """Give something another attribute until the act ends."""
        before = getattr(owner, name)
        setattr(owner, name, value)
        self.stack.callback(setattr, owner, name, before)

    def swap_item(self, owner: MutableMapping[str, Any], name: str, value: Any) -> None:
        """Give a mapping another item until the act ends; None removes it from an environment."""

        def give(value: Any) -> None:
            if value is _ABSENT:
                owner.pop(name, None)
            else:
                owner[name] = value

        self.stack.callback(give, owner.get(name, _ABSENT))
        give(value)

    def note_log(self, name: str) -> None:
        """Note what is logged under a name until the act ends."""

        def note(record: logging.LogRecord) -> bool:
            self.notes.add("log", record.levelname, record.getMessage())
            return False

        log = logging.getLogger(name)
        log.addFilter(note)
        self.stack.callback(log.removeFilter, note)

    def variable(self, name: str, value: str | None) -> None:
        """Set a variable of the environment until the act ends; None removes it."""
        self.swap_item(os.environ, name, _ABSENT if value is None else value)

    # -- chance --------------------------------------------------------------------------------------------------------

    def maybe(self, share: float) -> bool:
        """Return True as often as a share says."""
        return self.chance.random() < share

    def pick(self, *among: T) -> T:
        """Return one of some values."""
        return self.chance.choice(among)

    def some(self, among: dict[str, tuple[Any, ...]], share: float = 0.4) -> dict[str, Any]:
        """Return some of some options, each with one of its values."""
        return {name: self.chance.choice(values) for name, values in among.items() if self.chance.random() < share}


_ABSENT: Final = object()

Act = Callable[[SceneContext], None]
"""One act of a scene."""


class Acts(NamedTuple):
    """What scenes are made of: acts, of which each scene plays a `number`, and tables, which `scenes` share."""

    acts: tuple[Act, ...]
    number: int
    tables: tuple[Table, ...]
    scenes: int

    def scene(self, seed: str, options: Mapping[str, Any]) -> Notes:
        """Play the scene of a seed on machines with these options, and return what came."""
        with ExitStack() as stack:
            context = SceneContext(seed, stack, options)
            for act in context.chance.sample(self.acts, self.number):
                context.notes.add(act.__name__)
                with ExitStack() as context.stack:
                    act(context)
            show_tables(context.notes, self.tables, seed, self.scenes)
            return context.notes


def constants(modules: tuple[str, ...], number: int) -> Act:
    """Return an act that shows the constants of a number of modules."""

    def show_constants(context: SceneContext) -> None:
        for name in context.chance.sample(modules, number):
            show_module(context.notes, name)

    return show_constants


def module(name: str, **values: Any) -> ModuleType:
    """Return a module with values."""
    found = ModuleType(name)
    vars(found).update(values)
    return found


def thing(**values: Any) -> Any:
    """Return an object with attributes."""
    return SimpleNamespace(**values)


def show_module(notes: Notes, name: str) -> None:
    """Note the constants of a module, and the defaults of its functions and of the methods of its classes."""
    found = vars(import_module(f"stepward.vm.{name}"))
    for one, value in sorted(found.items()):
        if one.strip("_").isupper() and _is_plain(value):
            notes.add(name, one, value)
        elif isinstance(value, re.Pattern):
            notes.add(name, one, value.pattern, int(value.flags))
        elif getattr(value, "__module__", "") == f"stepward.vm.{name}":
            owners = [(one, value), *((f"{one}.{inner}", each) for inner, each in _inner(value))]
            for called, function in owners:
                _show_defaults(notes, called, getattr(function, "__func__", function))


def _inner(value: Any) -> list[tuple[str, Any]]:
    return sorted(vars(value).items()) if isinstance(value, type) else []


def _show_defaults(notes: Notes, called: str, function: Any) -> None:
    defaults = (
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).values(),
    )
    if defaults and isinstance(function, FunctionType):
        notes.add(called, [each if _is_plain(each) else type(each).__name__ for each in defaults])


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | frozenset | list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(each) for item in value.items() for each in item)
    return value is None or type(value) in (int, float, str, bytes, bool, Decimal)
