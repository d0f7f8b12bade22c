"""The gate at the door: what a machine asks its checker before the first run of a program, and what it says without."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from machines import end, program, tool
from paths import ROOT
from stepward.validator import check_program
from stepward.vm import ExecutionVM, MemoryJournal, NoCheckerWarning, Policy, Program, RunRefused
from stepward.vm.machine import admission
from stepward.vm.machine.clock import ManualClock

DAY = 86_400_000_000
READ = {"read": lambda: 1}
CLEAN = program(tool("a"), end())
WRONG = program(tool("a", args={"n": "$nowhere"}), end())


class Said(NamedTuple):
    """A finding as a checker of somebody's own may give one."""

    code: str
    message: str = "it is not as it should be"
    severity: str = "error"


class Counting:
    """A checker that says what it is told to, and counts how often it is asked."""

    def __init__(self, *findings: Said) -> None:
        self.findings = findings
        self.asked: list[str] = []

    def __call__(self, asked: Program, policies: Sequence[Policy]) -> Sequence[Said]:
        self.asked.append(asked.name)
        return self.findings


# -- without a checker -------------------------------------------------------------------------------------------------


def test_a_machine_without_a_word_about_a_checker_warns_at_the_line_that_makes_it() -> None:
    def made_here() -> ExecutionVM:
        return ExecutionVM(READ)

    with pytest.warns(NoCheckerWarning) as seen:
        machine = made_here()
    (warning,) = seen
    assert (warning.filename, warning.lineno) == (__file__, inspect.getsourcelines(made_here)[1] + 1)
    assert "`checker=check_program`" in str(warning.message)
    assert "`checker=None`" in str(warning.message)
    assert machine.run_sync(CLEAN).status == "SUCCESS", "it warns, and runs"


@pytest.mark.parametrize("checker", [None, check_program, Counting()])
def test_who_says_something_of_a_checker_is_not_warned(checker: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExecutionVM(READ, checker=checker)
        ExecutionVM(READ, None, None, (), checker)


def test_the_warning_comes_once_for_a_place_and_by_default() -> None:
    code = (
        "from stepward.vm import ExecutionVM\n"
        "for _ in range(3):\n    ExecutionVM()\n"
        "ExecutionVM()\n"
        "ExecutionVM(checker=None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.findall(r"<string>:(\d+): NoCheckerWarning", done.stderr) == ["3", "4"]


def test_the_words_of_the_warning_done_literally_end_it() -> None:
    with pytest.warns(NoCheckerWarning) as seen:
        ExecutionVM()
    said = str(seen[0].message)
    (imports,) = re.findall(r"`(from [^`]*)`", said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in re.findall(r"`(checker=[^`]*)`", said):
            exec(f"{imports}\nExecutionVM({given})", {"ExecutionVM": ExecutionVM})


def test_the_tests_make_no_machine_that_warns_by_accident() -> None:
    with pytest.raises(NoCheckerWarning):
        ExecutionVM()


def machines_in(source: str) -> list[ast.Call]:
    if "ExecutionVM(" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", "") == "ExecutionVM"]


def test_the_examples_of_the_pages_pass_the_gate_and_no_code_of_ours_warns() -> None:
    shown = [
        call
        for page in (ROOT / "README.md", *ROOT.glob("specs/**/*.md"))
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for call in machines_in(block)
    ]
    assert shown
    for call in shown:
        assert [ast.unparse(word.value) for word in call.keywords if word.arg == "checker"] == ["check_program"]
    folders = ("vm", "sabotage", "validator", "benchmarks", "specs")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if path.name != "machine_peers.py":  # another library has a class of that name
            for call in machines_in(path.read_text(encoding="utf-8")):
                assert "checker" in {word.arg for word in call.keywords}, f"{path}:{call.lineno}"


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_a_program_that_the_gate_refuses_does_not_run() -> None:
    called: list[int] = []
    journal = MemoryJournal()
    machine = ExecutionVM({"read": called.append}, journal=journal, checker=check_program)
    for _ in range(2):
        with pytest.raises(RunRefused, match=r"SW\d+: .*; correct the program, or accept SW\d+.* by name"):
            machine.run_sync(WRONG)
    assert not called
    assert not list(journal.names()), "nothing has happened"


def test_only_an_error_whose_code_is_not_accepted_refuses_a_run() -> None:
    machine = ExecutionVM(READ, checker=Counting(Said("X1"), Said("X2"), Said("X3", severity="warning")))
    with pytest.raises(RunRefused, match="X2: it is not as it should be; correct the program, or accept X2 by name"):
        machine.run_sync(CLEAN, accept=["X1"])
    with pytest.raises(RunRefused, match=r"X1: .* \(and 1 more\); correct the program, or accept X1, X2 by name"):
        machine.run_sync(CLEAN)
    assert machine.run_sync(CLEAN, accept=["X1", "X2"]).status == "SUCCESS"


def test_a_verdict_is_kept_for_the_program_whatever_object_it_is() -> None:
    checker = Counting()
    machine = ExecutionVM(READ, checker=checker)
    for _ in range(3):
        machine.run_sync(Program.from_dict(CLEAN.to_data()))
    assert len(checker.asked) == 1
    machine.run_sync(program(tool("b"), end()))
    assert len(checker.asked) == 2
    ExecutionVM(READ, checker=checker).run_sync(CLEAN)
    assert len(checker.asked) == 3, "each machine asks for itself"


def policy(**more: Any) -> Policy:
    return Policy.from_dict({"policy": "house", "guardrails": [{"name": "none", "never": {"tool": "write"}}], **more})


def test_a_verdict_is_kept_for_the_policies_that_apply_and_what_they_waive_that_day() -> None:
    waiver = {"program": "bench", "rule": "none", "reason": "until it is mended", "expiry": "2026-01-01"}
    checker, clock = Counting(), ManualClock()
    machine = ExecutionVM(READ, policy=policy(waivers=[waiver]), checker=checker, clock=clock)
    for count, days in [(1, 0), (2, 1), (2, 1)]:  # the waiver has run out by the second day
        clock.time += days * DAY
        machine.run_sync(CLEAN)
        assert len(checker.asked) == count
    checker = Counting()
    machine = ExecutionVM(READ, policy=policy(applies_to=["paid/*"]), checker=checker)
    for count, name in [(1, "free/a.yaml"), (1, "free/b.yaml"), (2, "paid/a.yaml")]:
        machine.run_sync(Program.from_json(CLEAN.to_json(), name))
        assert len(checker.asked) == count, name


def test_a_checker_that_fails_is_no_verdict() -> None:
    answers: list[Callable[[], Sequence[Said]]] = [lambda: 1 // 0, lambda: ()]  # type: ignore[list-item, return-value]
    machine = ExecutionVM(READ, checker=lambda *_: answers.pop(0)())
    with pytest.raises(ZeroDivisionError):
        machine.run_sync(CLEAN)
    assert machine.run_sync(CLEAN).status == "SUCCESS"


def test_no_more_verdicts_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_VERDICTS", 2)
    checker = Counting()
    machine = ExecutionVM(READ, checker=checker)
    programs = [program(tool(name), end()) for name in ("a", "b", "c")]
    for one in (*programs, programs[2], programs[1], programs[0]):
        machine.run_sync(one)
    assert len(checker.asked) == 4, "the oldest went for the third, and is asked again"


# -- meanwhile ---------------------------------------------------------------------------------------------------------


def test_an_event_loop_goes_on_while_a_program_is_checked_and_it_is_checked_once() -> None:
    others_ran = threading.Event()
    asked: list[bool] = []

    def checker(*_: object) -> Sequence[Said]:
        asked.append(others_ran.wait(10))
        return ()

    async def together() -> list[str]:
        machine = ExecutionVM(READ, checker=checker)
        runs = [asyncio.create_task(machine.run(CLEAN)) for _ in range(20)]
        await asyncio.sleep(0.01)
        others_ran.set()
        return [(await run).status for run in runs]

    assert asyncio.run(together()) == ["SUCCESS"] * 20
    assert asked == [True]


def test_threads_that_run_a_program_at_once_ask_once() -> None:
    checker = Counting()
    machine = ExecutionVM(READ, checker=checker)
    ended: list[str] = []
    threads = [threading.Thread(target=lambda: ended.append(machine.run_sync(CLEAN).status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == ["SUCCESS"] * 8
    assert len(checker.asked) == 1


def test_the_gate_itself_decides_in_a_thread_too() -> None:
    """With witnesses, which the machine replays on a loop of its own."""
    pay = program(
        tool("ask", on_error="skip"),
        tool("pay", "write"),
        end(),
        guardrails=[{"name": "asked", "protects": {"tool": "write"}, "requires": {"step": "ask"}}],
    )
    machine = ExecutionVM({**READ, "write": lambda: 1}, checker=check_program)
    with pytest.raises(RunRefused, match="SW401"):
        asyncio.run(machine.run(pay))
