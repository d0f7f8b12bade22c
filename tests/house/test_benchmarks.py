"""The benchmarks measure what they say; how long anything takes is no test."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import math
import re
import sqlite3
import sys
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from paths import ROOT
from sizes import size

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import bodies  # noqa: E402
import check  # noqa: E402
import machine  # noqa: E402
from clock import multiple, spread  # noqa: E402
from commits import listening  # noqa: E402
from crashes import ENGINES, IDEMPOTENT, PLAIN, Outcome, crash  # noqa: E402
from drift import HEALTHY, NEVER, Side, delays, measured, thresholds  # noqa: E402
from engine import covered, decided  # noqa: E402
from fleets import FLEETS, fleet  # noqa: E402
from floors import Commit, Database, OnDisk, Same, Small  # noqa: E402
from hard import CASES, HARD, Hard  # noqa: E402
from machine import bytes_per_step, commits_of_a_run, long_run, memory_contenders  # noqa: E402
from machine_peers import NANO, is_installed  # noqa: E402
from mutations import edited, edits_of  # noqa: E402
from planted import Mistake, edits, patches, planted  # noqa: E402
from replies import contenders as kinds_of_steps  # noqa: E402
from runs import STEPS, Tools, chain, loop, performed  # noqa: E402
from shapes import SHAPES, Census, Shape, census  # noqa: E402
from stages import stages  # noqa: E402
from studio import Fleet, pace, reader_of, studio_of  # noqa: E402
from turns import ASYNC, DBOS, FLOOR, LANGGRAPH_ASYNC, LANGGRAPH_SYNC, SYNC, Report, contenders, course  # noqa: E402
from twins import TWINS, Twins  # noqa: E402

from machines import unchecked  # noqa: E402
from stepward.validator import ProgramValidator  # noqa: E402
from stepward.vm import MemoryJournal, Program, SQLiteJournal  # noqa: E402


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("n", [9, 10, 99, 100])
def test_a_program_is_what_its_shape_says(shape: Shape, n: int) -> None:
    data = shape.program(n)
    assert census(data).steps == len(data["steps"]) == n
    report = ProgramValidator(Program.from_dict(data)).validate()
    codes = [finding.code for finding in report.findings if finding.code != "SW212"]  # nothing reads the notes of steps
    assert codes == (["SW201"] if "fault" in shape.name else [])


def test_each_run_of_the_replies_asks_the_model_as_often_as_it_says(tmp_path: Path) -> None:
    for once in kinds_of_steps(tmp_path / "replies.db").values():
        once()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_checker_sees_the_same_graph_as_the_census(shape: Shape) -> None:
    data = shape.program(100)
    graph = ProgramValidator(Program.from_dict(data)).graph
    found = census(data)
    assert len(graph.reachable) == found.reachable == 100
    assert sum(step["type"] == "condition" for step in data["steps"]) == found.conditions
    assert len(graph.loops) == found.backward
    assert sum(way.kind == "branch" for ways in graph.flow.transitions for way in ways) == found.branches


@pytest.mark.parametrize("hard", HARD, ids=lambda hard: hard.name)
def test_what_is_said_of_a_hard_program_is_true(hard: Hard) -> None:
    found = decided(hard, 8)
    assert found.verdict.value == hard.verdict
    assert found.evidence.layer != "graph"


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins.name)
@pytest.mark.parametrize("n", [100, 101, 1_000])
def test_twins_are_of_their_size_and_a_third_of_their_steps_are_conditions(twins: Twins, n: int) -> None:
    kept, broken, bare = (
        twins.program(n, breaks=breaks, has_rule=has_rule)["steps"]
        for breaks, has_rule in ((False, True), (True, True), (True, False))
    )
    assert n - 20 <= len(kept) <= n
    assert 0.3 * n - 6 <= sum(step["type"] == "condition" for step in kept) <= 0.5 * n
    assert broken == bare
    assert [one["id"] for one, other in zip(kept, broken, strict=True) if one != other] == ["may_pay"]


def test_the_benchmark_of_proofs_ends_at_a_verdict_that_is_not_true() -> None:
    lie = Hard("lie", HARD[0].make, "proved", HARD[0].conditions)
    with pytest.raises(AssertionError, match="lie: violated is not true"):
        decided(lie, 8)


def test_cases_are_covered_by_classes_or_by_the_solver() -> None:
    assert {kind: covered(kind)[1] for kind in CASES} == {"plain": "cases", "sums": "cases", "sums, turned": "smt"}


def test_a_program_that_is_not_what_it_says_is_refused() -> None:
    lame = Shape("lame", SHAPES[0].make, lambda n: Census(n, n, 1, 2, 0))
    with pytest.raises(AssertionError, match="lame of 10 steps is none"):
        lame.program(10)


def test_the_stages_are_those_of_one_check() -> None:
    from stepward.validator.rules import registry

    rules = registry.RULES
    seconds = stages(json.dumps(SHAPES[1].program(100)))
    assert registry.RULES is rules
    assert {"reading", "models", "flow", "report"} <= seconds.keys()
    assert {name.split(" ")[0] for name in seconds if name.startswith("SW")} == {rule.code for rule in rules}
    assert all(value >= 0 for value in seconds.values())


def test_a_multiple_is_the_median_over_the_rounds() -> None:
    assert multiple([2.0, 8.0, 3.0], [1.0, 1.0, 1.0]) == 3.0
    assert spread([2.0, 8.0, 3.0], [1.0, 1.0, 1.0]) == 1.0


@pytest.fixture
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is called once in its turn, and the collector, which runs before, has little to look at."""
    monkeypatch.setattr("clock.LEAST_SECONDS", 0.0)
    gc.freeze()


@pytest.mark.usefixtures("_short_turns")
def test_the_table_prints(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["--sizes=10,20", "--peer-sizes=20", "--rounds=1", "--cold-rounds=1"])
    printed = capsys.readouterr().out
    for title in ("structural check", "where it goes", "collector on", "cold start", "side by side"):
        assert title in printed
    for shape in SHAPES:
        assert re.search(rf"^{shape.name}  +\d+\.\d  ±\d+%", printed, re.MULTILINE), printed


# -- the machine -------------------------------------------------------------------------------------------------------


def records_of(data: dict[str, Any]) -> tuple[list[dict[str, Any]], Tools, str]:
    """Run a program in memory, and return its records, the tools that it called, and its trace hash."""
    journal, tools = MemoryJournal(), Tools()
    run = unchecked(tools, journal=journal).run_sync(Program.from_dict(data))
    assert run.status == "SUCCESS"
    return [json.loads(entry.record) for entry in journal.read(run.id)], tools, run.trace_hash


def shape_of(value: Any) -> Any:
    """Return a value with its numbers and texts taken out: its fields, in order, and their kinds."""
    if isinstance(value, dict):
        return [(name, shape_of(item)) for name, item in value.items()]
    return [shape_of(item) for item in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("data", [chain(10), chain(10, "write"), loop(10)], ids=["chain", "writes", "loop"])
def test_the_programs_that_are_run_are_clean(data: dict[str, Any]) -> None:
    assert not ProgramValidator(Program.from_dict(data)).validate().findings


def test_a_chain_calls_each_of_its_steps_once() -> None:
    records, tools, _ = records_of(chain(10))
    assert [record["kind"] for record in records] == ["started"] + ["attempt"] * 10
    assert [record["body"]["step"] for record in records[1:]] == [f"step_{number}" for number in range(10)]
    assert tools.noops == 10


def test_a_write_has_an_intent_before_its_outcome() -> None:
    records, tools, _ = records_of(chain(STEPS, "write"))
    assert [record["kind"] for record in records] == ["started"] + ["intent", "attempt"] * STEPS
    assert tools.noops == STEPS


def test_a_loop_has_as_many_rounds_as_it_says() -> None:
    records, tools, _ = records_of(loop(10))
    branches = [record["body"]["branch"] for record in records if record["kind"] == "branched"]
    assert branches == ["then"] * 9 + ["otherwise"]
    assert tools.ticks == 11
    assert len(records) == 1 + performed(10)


@pytest.mark.parametrize("effect", ["none", "write"])
def test_the_floor_writes_the_records_of_ours(effect: str) -> None:
    program = Program.from_dict(chain(STEPS, effect))
    ours, _, trace = records_of(chain(STEPS, effect))
    floor, tools = Same(course(program, effect)), Tools()
    asyncio.run(floor.run(tools.noop))
    theirs = [json.loads(kept.record) for kept in floor.kept]
    assert shape_of(theirs) == shape_of(ours)
    assert [record["body"] for record in theirs] == [record["body"] for record in ours]
    assert floor.trace.hex() == trace
    assert tools.noops == STEPS == len(floor.state)
    small = Small(floor.course)
    asyncio.run(small.run(tools.noop))
    assert len(small.kept) == len(ours)
    assert json.loads(small.kept[-1].record)["prev"] == small.kept[-2].digest.hex()


@pytest.mark.parametrize("effect", ["none", "write"])
def test_the_floor_on_disk_commits_as_ours_does(effect: str, tmp_path: Path) -> None:
    schedule = commits_of_a_run(effect, tmp_path)
    assert sum(commit.records for commit in schedule) == (1 + STEPS if effect == "none" else 1 + 2 * STEPS)
    # An intent is on the disk before its effect, and so is the end of a run.
    assert sum(commit.durable for commit in schedule) >= (1 if effect == "none" else STEPS + 1)
    program = Program.from_dict(chain(STEPS, effect))
    with listening() as heard:
        database = Database(tmp_path / "floor.db")
        heard.clear()
        floor = OnDisk(course(program, effect), schedule, database)
        asyncio.run(floor.run(Tools().noop))
        assert heard == schedule
        database.connection.close()
    with closing(sqlite3.connect(tmp_path / "floor.db")) as connection:
        assert connection.execute("SELECT record, digest FROM records ORDER BY seq").fetchall() == floor.kept


def test_a_floor_that_does_not_keep_to_its_schedule_is_refused(tmp_path: Path) -> None:
    program = Program.from_dict(chain(STEPS))
    for schedule in ([Commit(True, 7)], [Commit(False, 1)]):
        database = Database(tmp_path / f"{schedule[0].records}.db")
        with pytest.raises(AssertionError):
            asyncio.run(OnDisk(course(program, "none"), schedule, database).run(Tools().noop))
        database.connection.close()


def test_durable_and_other_commits_are_told_apart(tmp_path: Path) -> None:
    with listening() as heard, closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
        heard.clear()
        journal.put_document("a", b"text")
        assert heard == [Commit(True, 0)]


def test_every_contender_in_memory_does_five_steps() -> None:
    tools = Tools()
    work = memory_contenders(tools)
    assert len(work) == 3 + is_installed(NANO)
    for number, (_, once) in enumerate(work, start=1):
        asyncio.run(once())  # type: ignore[arg-type]
        assert tools.noops == STEPS * number


@pytest.mark.parametrize("engine", ["Stepward", NANO])
@pytest.mark.parametrize(("data", "steps"), [(chain(20), 20), (loop(20), performed(20))], ids=["chain", "loop"])
def test_long_runs_do_all_their_steps(engine: str, data: dict[str, Any], steps: int) -> None:
    if engine == NANO and not is_installed(NANO):
        pytest.skip("llm-nano-vm is not installed")
    asyncio.run(long_run(engine, data, steps)())  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        asyncio.run(long_run(engine, data, steps + 1)())  # type: ignore[arg-type]


DISK = [FLOOR, SYNC, ASYNC]
PEERS = {LANGGRAPH_SYNC: "LangGraph", LANGGRAPH_ASYNC: "LangGraph", DBOS: "DBOS"}


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("name", [*DISK, *PEERS])
def test_every_contender_on_disk_does_five_steps_and_keeps_them(name: str, tmp_path: Path) -> None:
    if name in PEERS and not is_installed(PEERS[name]):
        pytest.skip(f"{PEERS[name]} is not installed")
    schedule = commits_of_a_run("write", tmp_path)
    spec = {"contender": name, "folder": str(tmp_path), "effect": "write", "schedule": schedule}
    with contenders([spec]) as (contender,):
        for _ in range(2):
            assert min(contender.turn(2)) > 0
        assert contender.end() == Report(4, 4 * STEPS, 4 * STEPS)


@pytest.mark.usefixtures("warm")
def test_a_contender_that_did_not_do_its_steps_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = {"contender": SYNC, "folder": str(tmp_path), "effect": "none"}
    monkeypatch.setattr("turns.STEPS", STEPS + 1)
    with contenders([spec]) as (contender,):
        contender.turn(1)
        with pytest.raises(AssertionError, match="run_sync: Report"):
            contender.end()


@pytest.mark.parametrize("effect", ["none", "write"])
def test_sizes_are_of_the_records_and_of_the_file(effect: str) -> None:
    of_steps, of_all, of_file = bytes_per_step(STEPS, effect, 2)
    assert of_steps < of_all < of_file


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_crash_comes_between_the_effect_and_its_record(engine: str, tmp_path: Path) -> None:
    if engine in PEERS.values() and not is_installed(engine):
        pytest.skip(f"{engine} is not installed")
    found = crash(engine, tmp_path)
    expected = {PLAIN: (1, 1, "IN_DOUBT"), IDEMPOTENT: (2, 1, "SUCCESS")}
    # What the peers do is measured, not demanded.
    assert isinstance(found, Outcome)
    assert (found.performed, len(found.keys), found.status) == expected.get(engine, (found.performed, 1, "SUCCESS"))


@pytest.mark.usefixtures("_short_turns", "warm")
def test_the_tables_of_the_machine_print(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "BATCH", 2)
    monkeypatch.setattr(machine, "GROWTH", (10, 20, 40))
    monkeypatch.setattr(machine, "FILE_RUNS", 2)
    monkeypatch.setattr(machine, "DISK_RUNS", {FLOOR: 1, SYNC: 1, ASYNC: 1})
    monkeypatch.setattr(machine, "crash", lambda engine, folder: Outcome(1, frozenset({"key"}), "SUCCESS"))  # see above
    machine.main(["--rounds=1"])
    printed = capsys.readouterr().out
    for title in ("runs per second", "effect none:", "effect write:", "growth", "journal sizes", "a crash between"):
        assert title in printed
    assert re.search(r"^Stepward, MemoryJournal  +[\d,]+  +\d\.\d{3}", printed, re.MULTILINE), printed
    for peer in ("llm-nano-vm", "LangGraph", "DBOS"):
        assert re.search(rf"^{peer}.*(\d\.\d\d|not installed)", printed, re.MULTILINE), printed


@pytest.mark.usefixtures("_short_turns")
def test_the_tables_of_bodies_print(capsys: pytest.CaptureFixture[str]) -> None:
    bodies.main(["--rounds", "1", "--bodies", "2", "4", "--ruled", "2", "4"])
    printed = capsys.readouterr().out
    rows = re.findall(r"^100 (.+?)  +(.+?)  +\d+\.\d\d +\d+\.\d\d +(\d+\.\d\d) +(\d+)$", printed, re.MULTILINE)
    assert [row[:3] for row in rows] == [
        ("items of four steps", "one after the other", "1.25"),
        ("calls of four steps", "one after the other", "1.74"),
        ("calls of four steps", "a `set` for each call", "1.40"),
        ("items, 4 at once", "one after the other", "1.25"),
        ("items, 4 at once", "four looks at once", "1.18"),
        ("branches, 4 at once", "one after the other", "1.37"),
        ("branches, 4 at once", "four looks at once", "1.29"),
    ]
    commits = [int(row[3]) for row in rows]
    assert max(commits) <= 5, "reads are written together, beside each other, too"
    for rules in ("one rule", "a rule in each"):
        assert re.search(rf"^4 of 2, {rules} +\d+\.\d\d +\d+\.\d\d$", printed, re.MULTILINE), printed


# -- mistakes to plant -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code, in which each mistake is mended again."""
    folder = tmp_path_factory.mktemp("planted") / "stepward"
    planted(Mistake("none", lambda _: None), folder)
    return folder


@pytest.mark.parametrize("mistake", [*edits()], ids=lambda mistake: mistake.name)
def test_a_mistake_is_planted_in_the_code_as_it_is_now(
    mistake: Mistake, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: set[Path] = set()
    write = Path.write_text
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", lambda path, *text, **how: written.add(path) or write(path, *text, **how))
        mistake.plant(code)
    changed = [path for path in written if path.is_relative_to(code / "vm") and path.read_text() != original(path)]
    assert changed
    for path in changed:
        compile(path.read_text(), path, "exec")
        path.write_text(original(path))


@cache
def original(path: Path) -> str:
    return BENCHMARKS.parent.joinpath(*path.parts[path.parts.index("stepward") + 1 :]).read_text()


def test_a_mistake_whose_text_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gone.patch").write_text("--- a/vm/run.py\n+++ b/vm/run.py\n@@ -1 +1 @@\n-nowhere\n+here\n")
    (mistake,) = patches(tmp_path)
    with pytest.raises(ValueError, match=r"`gone\.patch` does not fit"):
        planted(mistake, tmp_path / "stepward")


@pytest.mark.parametrize("name", FLEETS)
def test_a_fleet_is_the_same_for_one_seed_and_healthy_up_to_its_change(name: str) -> None:
    runs = list(fleet(name, 3, 300, 40))
    assert runs == list(fleet(name, 3, 300, 40))
    assert runs != list(fleet(name, 4, 300, 40))
    assert runs[:40] == list(fleet(name, 3, 40, NEVER))
    assert (runs[40:] == list(fleet(name, 3, 300, NEVER))[40:]) == (name == HEALTHY)


def test_fixed_thresholds_keep_the_rate_on_the_runs_that_they_are_tuned_on_and_delays_are_counted_from_the_change() -> (
    None
):
    healthy = list(fleet(HEALTHY, 2, 1_000, NEVER))
    side = thresholds("fixed", measured, healthy)
    assert sum(side.alarms(healthy)) <= 1
    third = Side("third", lambda courses: [course.run == "run-00102" for course in courses])
    assert delays(third, "slow drift", [1]) == [3]
    never = Side("never", lambda courses: [False] * len(courses))
    assert delays(never, "retry storms", [1]) == [1_001]


@pytest.mark.skipif(not is_installed(NANO), reason="llm-nano-vm is not installed")
def test_the_entropy_of_the_other_analyser_is_joint_over_pairs_of_steps() -> None:
    from drift import nano

    line = next(course for course in fleet(HEALTHY, 1, 50, NEVER) if len(course.moves) == len(set(course.moves)))
    pairs = len(line.moves) - 2
    assert nano(line)(line)[-1] == pytest.approx(math.log2(pairs) if pairs > 1 else 0.0)


@pytest.mark.slow
def test_the_reader_of_a_studio_is_sent_updates_and_asks_for_runs(tmp_path: Path) -> None:
    with closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
        fleet = Fleet(journal, "none")
        fleet.make(1)
        with studio_of(tmp_path / "runs.db") as (address, _), reader_of(address) as seen:
            made = pace(fleet, 3.0)
        assert len(journal.rows()) == 1 + made
    (found,) = seen
    assert found.updates >= found.parts >= 1
    assert found.size > 1_000


def test_each_mistake_by_syntax_is_another_function() -> None:
    kinds: set[str] = set()
    for file in ("vm/machine/due.py", "vm/machine/ask.py", "vm/journal/chain.py"):
        whole = ast.unparse(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        for edit in islice(edits_of(ROOT, file), 0, None, size(3, 1)):
            kinds.add(edit.kind)
            text = ast.unparse(edited(ROOT, edit))
            assert text != whole, edit
            compile(text, file, "exec")
    assert len(kinds) >= 12
