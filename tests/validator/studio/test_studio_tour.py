"""The fleet of `make studio`, and its guided tour in a browser, as somebody takes it (partly slow)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from browser import AXE, CAN_BROWSE, WHY_NOT, browser
from paths import PROGRAMS, ROOT
from stepward.validator.studio.disturbances import DISTURBANCES
from stepward.validator.studio.page import studio_page
from stepward.validator.studio.tour import STATIONS
from stepward.validator.studio.views import Views
from stepward.vm import SQLiteJournal
from studios import until

STEPWARD = str(Path(sys.executable).parent / "stepward")
MEANS = [
    "--tools", str(PROGRAMS / "tools.py"), "--model", f"script:{PROGRAMS / 'replies/customer_refund.yaml'}",
    "--policy", str(ROOT / "specs/policies/payments.yaml"),
]  # fmt: skip


def fleet(folder: Path, first: int) -> Path:
    """Return a journal with the first runs of the fleet, and one that goes slowly."""
    journal = folder / "runs.db"
    options = ["--first", str(first), "--runs", "1", "--every", "0", "--pause", "0.01"]
    subprocess.run([sys.executable, str(PROGRAMS / "fleet.py"), str(journal), *options], check=True, timeout=120)
    assert Path(f"{journal}.ready").exists()
    return journal


@pytest.fixture(scope="module")
def sailed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteJournal]:
    with closing(SQLiteJournal(str(fleet(tmp_path_factory.mktemp("fleet"), 40)))) as journal:
        yield journal


def test_the_fleet_has_runs_that_end_that_wait_and_that_are_in_doubt(sailed: SQLiteJournal) -> None:
    rows = sailed.rows()
    assert len(rows) == 41
    assert {row.status for row in rows} >= {"SUCCESS", "SUSPENDED", "IN_DOUBT"}
    assert sum(row.status == "SUSPENDED" for row in rows) <= 8, "a clerk answers what waits for long"
    assert sum(row.status == "IN_DOUBT" for row in rows) <= 8
    assert len({row.program for row in rows}) == 5


def test_each_failure_can_be_tried_on_some_run_of_the_fleet(sailed: SQLiteJournal) -> None:
    views = Views(sailed, DISTURBANCES)
    runs = [views.history(row.run) for row in sailed.rows()]
    for name, one in DISTURBANCES.items():
        assert any(one.places(found) for found in runs), name


def test_each_station_is_about_a_part_of_the_page() -> None:
    page = studio_page("runs.db", [], tour=True)
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert len(STATIONS) == 5
    assert {one.target for one in STATIONS} <= ids
    assert page.count('class="station"') == 5
    assert "station" not in studio_page("runs.db", [])


def test_make_studio_sets_up_starts_the_fleet_and_ends_it() -> None:
    told = subprocess.run(["make", "-n", "studio"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for part in (".venv/bin/python specs/programs/fleet.py", "kill $fleet", "stepward studio --journal", "--tour"):
        assert part in told


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(not CAN_BROWSE, reason=WHY_NOT)
def test_somebody_takes_the_tour(tmp_path: Path) -> None:
    journal = fleet(tmp_path, 14)
    command = [
        STEPWARD,
        "studio",
        "--journal",
        str(journal),
        "--port",
        "0",
        "--tour",
        "--isolated",
        *MEANS,
        str(PROGRAMS / "good"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, browser() as window:
        assert process.stderr is not None
        try:
            process.stderr.readline()
            window.open(process.stderr.readline().split()[-1])
            until(window, "document.getElementById('may-act').textContent === 'You can act.'")
            for number, station in enumerate(STATIONS, 1):
                shown = window.run("return [...document.querySelectorAll('.station')].filter(e => !e.hidden)"
                                   ".map(e => e.querySelector('h3').textContent)")  # fmt: skip
                assert shown == [f"{number} of 5: {station.title}"]
                assert window.run("return document.querySelector('.spot').id") == station.target
                if number < len(STATIONS):
                    window.click(".tour .bar button:nth-child(2)")
            # The second station: somebody answers.
            waits = (
                "[...document.querySelectorAll('#waiting-list .run-row')].find(e => e.dataset.status === 'SUSPENDED')"
            )
            until(window, waits)
            window.run(f"{waits}.click()")
            until(window, "document.querySelector('.act.resume button')?.disabled === false")
            window.run("document.getElementById('by').value = 'me'")
            window.run("document.querySelector('.act.resume textarea').value = arguments[0]",
                       '{"approved": true, "approver": "me"}')  # fmt: skip
            window.run("document.querySelector('.act.resume button').click()")
            until(window, "document.querySelector('#chosen-run article').dataset.status === 'SUCCESS'")
            # The fourth: a copy of it is killed.
            until(window, "document.querySelector('.act.disturb button')?.disabled === false")
            window.run("document.querySelector('.act.disturb button').click()")
            until(window, "document.querySelector('#sandbox .promise') !== null")
            assert "no effect happens twice" in window.run("return document.querySelector('#sandbox').textContent")
            window.resize(390, 844)
            assert window.run("return document.documentElement.scrollWidth") <= 390
            window.resize(1280, 800)
            if AXE:
                script = Path(AXE).read_text(encoding="utf-8")
                done = "const done = arguments[arguments.length - 1]; axe.run().then(done)"
                found = window.run_later(f"{script}; {done}")["violations"]
                assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
            window.click(".tour .bar button:nth-child(4)")
            assert window.run("return document.querySelector('.tour:not([hidden]), .spot')") is None
            window.click("#tour-again")
            assert window.run("return document.querySelector('.spot').id") == STATIONS[0].target
            assert window.log() == []
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
    assert rest == ""
