"""Three workers on one journal, of which one is killed again and again: each run is driven once, by one at a time."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from namespaces import namespaces
from sizes import MANY
from worker_fleets import Fleet, judge, late_begins


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    where = conninfo_to_dict(request.getfixturevalue("empty_postgres"))
    return f"postgresql://{where['user']}@{where['host']}:{where['port']}/{where['dbname']}"


def killed_each_second(fleet: Fleet, runs: int, kills: int) -> list[str]:
    """Kill one of three workers each second, and start it again; return what is wrong in the end."""
    written = fleet.queue(runs)
    for number in range(3):
        fleet.start(number)
    try:
        for kill in range(kills):
            time.sleep(1)
            fleet.kill(kill % 3)
            fleet.start(kill % 3)
        fleet.wait()
        assert set(fleet.stop()) <= {0, -signal.SIGTERM}  # one may still be starting
    finally:
        for number in fleet.workers:
            fleet.kill(number)
    assert len(fleet.killed) > kills
    return judge(fleet, written)


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_no_run_is_lost_doubled_or_stuck_when_workers_are_killed(tmp_path: Path, journal: str) -> None:
    runs, kills = (900, 60) if MANY else (60, 3)
    assert killed_each_second(Fleet(tmp_path, journal), runs, kills) == []


@pytest.mark.slow
def test_a_worker_that_is_cut_off_is_replaced_and_does_no_harm_when_it_is_back(
    tmp_path: Path, empty_postgres: str
) -> None:
    where = conninfo_to_dict(empty_postgres)
    path = f"{where['dbname']}?tcp_user_timeout=3000&connect_timeout=2"
    with namespaces(2, int(str(where["port"]))) as (near, far):
        fleet = Fleet(
            tmp_path, f"postgresql://{where['user']}@{where['host']}:{where['port']}/{where['dbname']}", lease=2.0
        )
        fleet.prefix = [near.prefix, far.prefix]
        runs = fleet.queue(60)
        for number, one in enumerate((near, far)):
            fleet.start(number, f"postgresql://{where['user']}@{one.address}:{where['port']}/{path}")
        try:
            log = tmp_path / "log-1"
            while '"event": "taken"' not in log.read_text():
                time.sleep(0.05)
            far.cut()
            cut = time.time()
            fleet.wait()  # the other one has driven all
            assert fleet.unfinished() == 0
            far.mend()
            more = fleet.queue(20)
            time.sleep(3)
            fleet.wait()
            assert fleet.stop() == [0, 0]
        finally:
            for number in fleet.workers:
                fleet.kill(number)
        # Nobody can call back a tool that was under way; but none starts without a lease.
        faults = [fault for fault in judge(fleet, [*runs, *more]) if "is driven by" not in fault]
        assert faults == []
        assert late_begins(fleet, fleet.workers[1].pid, cut + 2.5) == []
        assert any(f'"event": "{event}"' in log.read_text() for event in ("lost", "left"))


def test_the_judge_notices_two_drivers_and_a_lost_run(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, str(tmp_path / "runs.db"))
    run = fleet.queue(1)[0]
    line = '{{"what": "{}", "run": "' + run + '", "step": "first", "pid": {}, "at": {}}}\n'
    fleet.notes.write_text(line.format("begin", 1, 1) + line.format("begin", 2, 2))
    faults = judge(fleet, [run, "lost"])
    assert [fault.split(run)[-1][:30] for fault in faults[1:]] == [
        " is RUNNING",
        " has records that are doubled ",
        " is driven by 1 since 1, and b",
    ]
    assert faults[0] == "2 runs were written, and there are 1"
    fleet.killed[1] = 1.5
    assert "driven" not in str(judge(fleet, [run]))
