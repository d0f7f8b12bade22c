"""The recordings: for each kind of scene a file with a line for each scene, its seed, its digest and the marks of its
notes.

`python -m stepward.sabotage.recorded` writes them again, after a change of what machines do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepward.sabotage.recorded.histories import scene as histories
from stepward.sabotage.recorded.keys import scene as keys
from stepward.sabotage.recorded.lisp import scene as lisp
from stepward.sabotage.recorded.models import scene as models
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.operations import scene as operations
from stepward.sabotage.recorded.remote import scene as remote
from stepward.sabotage.recorded.stores import scene as stores
from stepward.sabotage.recorded.texts import scene as texts
from stepward.sabotage.recorded.watching import scene as watching

Scene = Callable[[str, Mapping[str, Any]], Notes]
"""Plays the scene of a seed on machines with some options."""

SCENES: Final[Mapping[str, Scene]] = {
    "operations": operations.scene,
    "stores": stores.SCENES.scene,
    "keys": keys.SCENES.scene,
    "models": models.SCENES.scene,
    "remote": remote.SCENES.scene,
    "watching": watching.scene,
    "texts": texts.scene,
    "lisp": lisp.scene,
    "histories": histories.scene,
}
"""The kinds of scenes."""

LONGEST: Final = 300
"""Letters of a note that a report shows."""


class Recording(NamedTuple):
    """What came of a scene: the digest of its notes, and two hexadecimal digits for each note."""

    seed: str
    digest: str
    marks: str


def file_of(kind: str) -> Path:
    """Return the file with the recordings of a kind."""
    return Path(__file__).with_name(kind) / "recordings.txt"


def recordings(kind: str) -> list[Recording]:
    """Return the recordings of a kind, in the order of their file."""
    lines = file_of(kind).read_text(encoding="ascii").splitlines()
    return [Recording(*line.split(" ")) for line in lines]


def played(kind: str, seed: str, options: Mapping[str, Any]) -> Notes:
    """Play a scene, and return its notes."""
    return SCENES[kind](f"{kind} {seed}", options)


def record(kind: str, seeds: Iterable[str]) -> None:
    """Play scenes, and write their recordings."""
    lines = []
    for seed in seeds:
        notes = played(kind, seed, {})
        lines.append(f"{seed} {notes.digest()} {notes.marks()}\n")
    file_of(kind).write_text("".join(lines), encoding="ascii")


def difference(notes: Notes, recording: Recording) -> str | None:
    """Return the first note that is otherwise than the recorded one, in words; None if all are as they were."""
    if notes.digest() == recording.digest:
        return None
    now, then = notes.marks(), recording.marks
    for number, text in enumerate(notes.texts):
        if now[2 * number : 2 * number + 2] != then[2 * number : 2 * number + 2]:
            what = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
            return f"note {number} is another one: {what}"
    return f"{len(then) // 2} notes were recorded, and there are {len(notes.texts)}"
