"""The chaos suite of the benchmarks: the machine holds, and for each scenario one that lacks a defence does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from canaries_crashes import repeats_anything
from canaries_injection import takes_any_payload
from canaries_replays import reconciles_anything, takes_any_inputs
from canaries_times import lease_for_everybody, time_outs_are_failures
from paths import ROOT
from stepward.sabotage.stores.through import ThroughStore
from stepward.sabotage.stores.weak_stores import HastyStore, SharingStore
from stepward.vm.journal.store import Entry, Journal
from stepward.vm.machine import ask
from stepward.vm.machine.events import Result
from stepward.vm.machine.models import ModelReply
from stepward.vm.machine.plan import CallPlan

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from chaos import main, parts  # noqa: E402
from chaos_scenarios import SCENARIOS, play  # noqa: E402
from chaos_world import Score  # noqa: E402

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SMALL = {"replays": 150, "mid-step crashes": 6, "all at once": 10}
CASES = 60


@pytest.mark.parametrize("name", BY_NAME)
def test_the_machine_holds(name: str) -> None:
    score = play(BY_NAME[name], SMALL.get(name, CASES), "7")
    assert score.complaints == []
    assert (score.violations, score.doubled, score.broken) == (0, 0, 0)
    assert score.runs > 0
    assert score.events >= SMALL.get(name, CASES)


# -- a table that can't show a violation is worth nothing --------------------------------------------------------------


class ForgetfulStore(ThroughStore):
    """Forgets the last record of a run that is read often."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner)
        self._reads = 0

    def read(self, run: str, start: int = 0) -> list[Entry]:
        self._reads += 1
        found = super().read(run, start)
        return found[:-1] if self._reads > 700 and len(found) > 3 else found


def doubts_nothing(patch: pytest.MonkeyPatch) -> None:
    """Take `InDoubt` for an error like any other, which says that nothing happened."""

    class Nobody(Exception):  # noqa: N818 - nobody raises it
        pass

    patch.setattr(ask, "InDoubt", Nobody)


def hears_what_it_wants(patch: pytest.MonkeyPatch) -> None:
    """Take a reply for an allowed word that has it somewhere in it."""
    whole = ask._accepted

    def accepted(plan: CallPlan, reply: ModelReply, most: int) -> Result:
        word = next((word for word in plan.allowed or () if word in str(reply.content)), reply.content)
        return whole(plan, reply._replace(content=word), most)

    patch.setattr(ask, "_accepted", accepted)


PATCHES: list[tuple[str, Callable[[pytest.MonkeyPatch], None], int]] = [
    ("duplicate attacks", lease_for_everybody, CASES),
    ("mid-step crashes", repeats_anything, 12),
    ("out-of-order events", reconciles_anything, 20),
    ("out-of-order events", takes_any_inputs, CASES),
    ("corrupted payloads", takes_any_payload, CASES),
    ("tool failure cascades", doubts_nothing, 300),
    ("66 % time-outs", time_outs_are_failures, CASES),
    ("noise of models", hears_what_it_wants, CASES),
    ("all at once", takes_any_payload, 10),
    ("a million adversarial events", takes_any_payload, CASES),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "weaken", "count"), PATCHES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_machine_without_a_defence_shows_in_the_table(
    monkeypatch: pytest.MonkeyPatch, name: str, weaken: Callable[[pytest.MonkeyPatch], None], count: int
) -> None:
    weaken(monkeypatch)
    assert _shows(play(BY_NAME[name], count, "7"))


@pytest.mark.parametrize(
    ("name", "store", "count"),
    [
        ("replays", ForgetfulStore, 900),
        pytest.param("mid-step crashes", HastyStore, 4, marks=pytest.mark.slow),
        ("re-entrancy", SharingStore, CASES),
    ],
)
def test_a_store_without_a_defence_shows_in_the_table(
    name: str, store: Callable[[Journal], Journal], count: int
) -> None:
    assert _shows(play(BY_NAME[name], count, "7", store))


def _shows(score: Score) -> bool:
    assert bool(score.complaints) == bool(score.violations)
    return bool(score.violations or score.doubled or score.broken)


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("warm")
def test_the_command_prints_the_table_and_exits_with_0() -> None:
    arguments = ["--scale", "0.0002", "--only", "o", "--workers", "1", "--seed", "3"]
    done = subprocess.run(
        [sys.executable, "chaos.py", *arguments],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    named = [scenario.name for scenario in SCENARIOS if "o" in scenario.name]
    assert all(any(line.startswith(name) for line in done.stdout.splitlines()) for name in named)
    assert f"asserted[{named[-1]}]: {BY_NAME[named[-1]].asserts}" == done.stdout.splitlines()[-1]


def test_a_violation_ends_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    from chaos import report

    bad = Score(events=3, runs=2, violations=1, seconds=0.5, complaints=["`run-1` paid twice"])
    assert report([SCENARIOS[0]], [bad]) == 1
    assert "violated[replays]: `run-1` paid twice" in capsys.readouterr().out
    assert report([SCENARIOS[0]], [Score(events=3, doubled=1, seconds=0.5)]) == 1
    assert report([SCENARIOS[0]], [Score(events=3, broken=1, seconds=0.5)]) == 1
    assert report([SCENARIOS[0]], [Score(events=3, seconds=0.5)]) == 0


def test_bad_arguments_are_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in ((["--only", "nothing"], "no scenario has `nothing`"), (["--scale", "0"], "above 0")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert words in capsys.readouterr().err


def test_the_suite_is_that_of_the_posts() -> None:
    sizes = {scenario.name: scenario.count for scenario in SCENARIOS}
    assert sizes["replays"] == 450_000
    assert sizes["corrupted payloads"] == 50_000
    assert sizes["a million adversarial events"] == 1_000_000
    assert len(SCENARIOS) == 11
    assert [sum(parts(count)) for count in (1, 7, 8, 100, 450_000)] == [1, 7, 8, 100, 450_000]


def test_equal_seeds_make_equal_events() -> None:
    first, again, other = (play(BY_NAME["66 % time-outs"], 40, seed) for seed in ("1", "1", "2"))
    assert (first.events, first.runs) == (again.events, again.runs)
    assert (first.events, first.runs) != (other.events, other.runs)
