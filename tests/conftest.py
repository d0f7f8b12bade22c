"""Fixtures of more than one file."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from databases import Place, new_database
from sizes import MANY, parted_by_day
from warm import warm_starts

# Tests plant mistakes in running code, which the key of a cached result can't know of. Those of the cache ask for it.
os.environ["STEPWARD_NO_CACHE"] = "1"

# Hundreds of processes start in tests. Where no bytecode is kept, each of them compiles all that it imports again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Who starts a shell command in the background may have it ignore interrupts, and all that it starts with it.
signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY = Path("/dev/shm")
ROOM = 1 << 30


def is_roomy_memory() -> bool:
    """Return whether there is a file system in memory that holds what tests write, and runs what they compile."""
    if not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(MEMORY).free > ROOM


# The journals of killed runs wait for the disk at every append: for most of their time, where there is one. Processes
# are killed here, no power is cut; what survives that is decided by the images of `sabotage/stores/images.py`.
if "TMPDIR" not in os.environ and is_roomy_memory():
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# How long an example takes says how busy the machine is. By day everyone draws the same examples, CI too: what passes
# here passes there. The nights draw others.
settings.register_profile(
    "patient",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not MANY,
    database=None,
)
settings.load_profile("patient")


# What is collected lives to the end, so that each pass over it is useless: they were a quarter of the collection.
gc.disable()


WAITING = "test_cli_worker_fleet.py"
"""Its tests wait for half a minute. At the end of a run a worker would be alone with them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let those that wait come first. By day keep one in so many cases of a test with the mark `one_in`: all where
    somebody names a test."""
    items.sort(key=lambda item: item.path.name != WAITING)
    if not any("::" in name for name in config.args) and "STEPWARD_WRITE_FIXTURES" not in os.environ:
        items[:], left = parted_by_day(items)
        config.hook.pytest_deselected(items=left)


FEW_SCENES = {"keys": 200}
"""How many of the first scenes of a kind are few: of others 30. Those of keys take little time, and its canary shows
late."""


def _play_few_scenes() -> None:
    """Let campaigns in tests play few recorded scenes of each kind: `test_recorded_scenes.py` plays more."""
    recorded: Any = sys.modules.get("stepward.sabotage.attacks.recorded")
    if recorded is not None and not MANY:
        every = recorded.recordings
        recorded.recordings = lambda kind: every(kind)[: FEW_SCENES.get(kind, 30)]


def pytest_collection_finish() -> None:
    """Let the collector look seldom, and not at what all tests share: it took a sixth of the time.

    Each pass costs as much as is alive then. A worker needs 100 MB more for it.
    """
    _play_few_scenes()
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[str]:
    """A database for this process: what is open in another one's can't keep rows from being destroyed in ours."""
    with new_database() as conninfo:
        yield conninfo


@pytest.fixture
def empty_postgres() -> Iterator[str]:
    """A database for one test that uses the schema that everybody has."""
    with new_database() as conninfo:
        yield conninfo


@pytest.fixture
def postgres(postgres_database: str) -> Place:
    """A schema that nothing is in yet."""
    return Place(postgres_database, f'Test "{uuid.uuid4().hex}"')


@pytest.fixture
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in an empty project, by a user without a cache."""
    from caches import own_folder

    own_folder(tmp_path, monkeypatch)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the documents that were really checked, since the list was cleared."""
    from caches import watch_checks

    return watch_checks(monkeypatch)


@pytest.fixture
def in_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in a folder with a program and its tools."""
    from shops import open_shop

    open_shop(tmp_path, monkeypatch)


@pytest.fixture
def warm() -> Iterator[None]:
    """Commands and scripts that the test starts begin as forks of a process that has imported what they need."""
    with warm_starts():
        yield


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What chance draws hangs on no program: a campaign that is about something else plays two programs of a seed,
    and few scenes."""
    from stepward.sabotage.attacks import drawn, recorded
    from stepward.sabotage.registry import attacks_in

    for attack in attacks_in(drawn):
        monkeypatch.setattr(attack, "programs", 2)
    few = recorded.recordings
    monkeypatch.setattr(recorded, "recordings", lambda kind: few(kind)[:3])


@pytest.fixture
def interrupted_by_default() -> Iterator[None]:
    """Ctrl-C does what it does by default, whatever the tests run under."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
