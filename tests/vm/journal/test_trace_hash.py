"""Differential: the trace hash, computed by `trace_hash.py` from specs/journal.md alone, against the machine."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from machines import Bench, assign, both, end, program, tool
from paths import SUPPORT
from replays import good_programs, made
from stepward.vm import InDoubt, Policy, Run, SQLiteJournal, Suspend
from stepward.vm.journal.store import Journal
from trace_hash import main, trace_hash

SCRIPT = SUPPORT / "trace_hash.py"
GOOD = good_programs()
TEXT = {"s": {"type": "string"}}


def by_the_page(journal: Journal, run: str = "run") -> str:
    records = [json.loads(entry.record) for entry in journal.read(run)]
    document = journal.document(records[0]["body"]["program"])
    assert document is not None
    return trace_hash(records, json.loads(document)).hex()


def agrees(bench: Bench, run: Run) -> Run:
    assert by_the_page(bench.journal, run.id) == run.trace_hash
    return run


def test_the_script_shares_nothing_with_the_machine() -> None:
    source = SCRIPT.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 100
    tree = ast.parse(source)
    modules = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", GOOD)
def test_the_page_says_the_trace_hash_of_every_good_program(name: str) -> None:
    for seed in "abc":
        bench = Bench()
        agrees(bench, made(GOOD[name], seed, bench, f"{name}-{seed}")[0])


def test_it_says_those_of_sub_steps_that_are_tried_again() -> None:
    bench = Bench({"a": [ValueError("no"), 1], "b": 2, "c": [ValueError("no"), ValueError("no"), 3]})
    parts = both("p", tool("a"), tool("b"), tool("c"), on_error="retry", max_retries=3)
    assert agrees(bench, bench.run(program(parts, end()))).status == "SUCCESS"
    fails = both("p", tool("a"), tool("b"), on_error="skip")
    bench = Bench({"a": ValueError("no")})
    assert agrees(bench, bench.run(program(fails, end()))).status == "SUCCESS"


def test_it_says_those_of_doubt_resumption_rules_and_later_policies() -> None:
    bench = Bench({"a": InDoubt("who knows"), "w": Suspend()})
    bench.run(program(tool("a", "write"), tool("w", "ask"), tool("z", "write"), end()))
    run = agrees(bench, bench.vm.reconcile_sync("run", "a", "done", {"#v1": ["#v", "##", 1.5]}))
    allows = Policy.from_dict({"policy": "later", "allow": ["ask"]})
    other = Bench(journal=bench.journal, policy=Policy.from_dict({"policy": "other"}))
    agrees(other, other.vm.resume_sync(run.suspensions[0].token, 1))
    forbids = Bench(policy=allows)
    assert agrees(forbids, forbids.run(program(tool("a", "write")))).status == "FAILED"


def test_the_script_reads_a_file(tmp_path: Path) -> None:
    bench = Bench(journal=SQLiteJournal(tmp_path / "j.db"))
    run = bench.run(program(assign("s", x=1.5), end("e", "$x")))
    assert main(str(tmp_path / "j.db"), "run") == run.trace_hash


LOOKS_LIKE_A_SEAL = [
    *[f'x"#v{n}:ab' for n in ("11", "22")],
    *[f"#v{n}:ab" for n in ("11", "22")],
    {"#v11:ab": 1},
    {"#v22:ab": 1},
    [{"a": '"#v11:ab"'}],
    [{"a": '"#v22:ab"'}],
    '\\"#v11:ab\\"',
    '\\\\"#v11:ab',
    "#v",
    "##v11:ab",
]


def test_what_looks_like_a_sensitive_value_is_none() -> None:
    """Runs that differ in such a text alone have trace hashes of their own, as inputs and as outputs."""
    inputs: set[str] = set()
    outputs: set[str] = set()
    for value in LOOKS_LIKE_A_SEAL:
        bench = Bench({"a": [value]})
        run = bench.run(program(tool("a"), end("e", "$a.output"), inputs={"s": {}}), "run", s=value)
        inputs.add(agrees(bench, run).trace_hash)
        bench = Bench({"a": [value]})
        outputs.add(agrees(bench, bench.run(program(tool("a"), end()))).trace_hash)
    assert len(inputs) == len(outputs) == len(LOOKS_LIKE_A_SEAL)


def test_of_a_sensitive_value_the_trace_hash_covers_that_there_is_one() -> None:
    secret: Any = {"inputs": {"s": {"type": "string", "sensitive": True}}}
    benches = [Bench(), Bench(), Bench()]
    one, other = (
        agrees(bench, bench.run(program(end("e", "$s"), **secret), "run", s=value))
        for bench, value in zip(benches, ("Ada", "Bob"), strict=False)
    )
    plain = agrees(benches[2], benches[2].run(program(end("e", "$s"), inputs=TEXT), "run", s="Ada"))
    assert one.trace_hash == other.trace_hash != plain.trace_hash
