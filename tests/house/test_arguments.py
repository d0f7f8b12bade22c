"""A wrong argument of a public function is refused at the door, by an error that names the parameter."""

from __future__ import annotations

import asyncio
import enum
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepward.sabotage
import stepward.testing
import stepward.validator
import stepward.vm
from stepward.sabotage import Orders, Script, attack_program
from stepward.testing import Bench, FakeClock, FakeTools, by_argument, takes
from stepward.validator import Planner, ProgramValidator, StepGraph, assert_valid, check_program
from stepward.vm import (
    CommandKeys,
    ExecutionVM,
    FileKeys,
    Flow,
    HttpServer,
    LiteLLMModel,
    McpTools,
    Meaning,
    MemoryJournal,
    NamedModels,
    OpenAIModel,
    Pins,
    Policy,
    PostgresJournal,
    PriceTable,
    Program,
    RecordedModel,
    RedisCache,
    ScriptedModel,
    SigningKey,
    SQLiteCache,
    SQLiteJournal,
    StdioServer,
    StepwardError,
    Telemetry,
    tool,
    trace_id_of,
)

PROGRAM = Program.from_dict({"name": "p", "steps": [{"id": "stop", "type": "end"}]})
MODEL = ScriptedModel({})
BRIEF = Orders(examples=1, attacks=("guessed-token",), drawn=False)
PROBES: tuple[Any, ...] = (None, 5, "nosuch", b"nosuch", {"a": 1}, [1], object())


def _machine() -> ExecutionVM:
    return ExecutionVM(checker=None)


def _bench() -> Bench:
    return Bench(PROGRAM)


DOORS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "CommandKeys": (CommandKeys, {"command": ["true"]}),
    "ExecutionVM": (ExecutionVM, {"checker": None}),
    **{
        f"ExecutionVM.{name}": (lambda name=name, **given: getattr(_machine(), name)(**given), given)
        for name, given in {
            "run_sync": {"program": PROGRAM},
            "queue_sync": {"program": PROGRAM},
            "continue_run_sync": {"run_id": "r", "program": PROGRAM},
            "migration_sync": {"run_id": "r", "program": PROGRAM},
            "migrate_sync": {"run_id": "r", "program": PROGRAM},
            "get_sync": {"run": "r"},
            "before_sync": {"run": "r"},
            "recover_sync": {},
            "resume_sync": {"token": "t"},
            "reconcile_sync": {"run_id": "r", "step": "s", "verdict": "done"},
            "cancel_sync": {"run_id": "r"},
            "erase_sync": {"run_id": "r"},
            "prunable_sync": {"before": 0.0},
            "prune_sync": {"before": 0.0},
            "runs": {},
        }.items()
    },
    "FileKeys": (FileKeys, {"folder": "keys"}),
    "Flow": (Flow, {"program": PROGRAM}),
    "HttpServer": (HttpServer, {"name": "shop", "url": "https://shop.example"}),
    "LiteLLMModel": (LiteLLMModel, {"model": "m"}),
    "McpTools": (McpTools, {"servers": ()}),
    "Meaning": (Meaning, {"program": PROGRAM}),
    "OpenAIModel": (OpenAIModel, {"model": "m", "base_url": "https://models.example/v1"}),
    "Pins.load": (Pins.load, {"path": "pins.json"}),
    "Policy.from_bytes": (Policy.from_bytes, {"content": b"policy: p", "name": "p.yaml"}),
    "Policy.from_dict": (Policy.from_dict, {"data": {"policy": "p"}}),
    "Policy.load": (Policy.load, {"path": "policy.yaml"}),
    "PostgresJournal": (PostgresJournal, {"conninfo": "host=/nosuch"}),
    "PriceTable": (PriceTable, {"models": {}}),
    "PriceTable.load": (PriceTable.load, {"file": "prices.yaml"}),
    "Program.from_dict": (Program.from_dict, {"data": {}}),
    "Program.from_json": (Program.from_json, {"text": "{}"}),
    "Program.from_lisp": (Program.from_lisp, {"text": "1"}),
    "Program.from_yaml": (Program.from_yaml, {"text": "{}"}),
    "Program.load": (Program.load, {"path": "p.yaml"}),
    "Program.load_all": (Program.load_all, {"path": "p.yaml"}),
    "RecordedModel": (RecordedModel, {"file": "replies.jsonl"}),
    "RedisCache": (RedisCache, {"url": "redis://127.0.0.1:1/0"}),
    "ScriptedModel": (ScriptedModel, {"script": {}}),
    "SigningKey.from_pem": (SigningKey.from_pem, {"pem": b""}),
    "SigningKey.from_seed": (SigningKey.from_seed, {"seed": bytes(32)}),
    "SigningKey.load": (SigningKey.load, {"path": "key.pem"}),
    "SigningKey.save": (SigningKey.make().save, {"path": "key.pem"}),
    "SQLiteCache": (SQLiteCache, {"path": "cache.db"}),
    "SQLiteJournal": (SQLiteJournal, {"path": "runs.db"}),
    "StdioServer": (StdioServer, {"name": "shop", "command": "true"}),
    "Telemetry": (Telemetry, {}),
    "Telemetry.export": (Telemetry().export, {"journal": MemoryJournal(), "run": "r"}),
    "tool": (tool, {}),
    "trace_id_of": (trace_id_of, {"run": "r"}),
    "Planner": (Planner, {"model": MODEL}),
    "Planner.plan_sync": (Planner(MODEL).plan, {"task": "t"}),
    "Planner.brief": (Planner(MODEL).brief, {"task": "t"}),
    "ProgramValidator": (ProgramValidator, {"program": PROGRAM}),
    "ProgramValidator.sabotage": (ProgramValidator(PROGRAM).sabotage, {"orders": BRIEF}),
    "StepGraph": (StepGraph, {"flow": Flow(PROGRAM)}),
    "assert_valid": (assert_valid, {"program": PROGRAM}),
    "check_program": (check_program, {"program": PROGRAM}),
    "Orders": (Orders, {}),
    "Script.load": (Script.load, {"path": "script.json"}),
    "attack_program": (attack_program, {"program": PROGRAM, "orders": BRIEF}),
    "Bench": (Bench, {"program": PROGRAM}),
    "Bench.run": (_bench().run, {}),
    "Bench.resume": (_bench().resume, {"run": _bench().run()}),
    "Bench.let_pass": (_bench().let_pass, {"run": _bench().run()}),
    "Bench.reconcile": (_bench().reconcile, {"run": _bench().run(), "verdict": "done"}),
    "FakeClock": (FakeClock, {}),
    "FakeClock.advance": (FakeClock().advance, {"seconds": 1}),
    "FakeTools": (FakeTools, {"program": PROGRAM}),
    "FakeTools.of": (FakeTools(PROGRAM).of, {"name": "t"}),
    "by_argument": (by_argument, {"argument": "a", "outputs": {}}),
    "takes": (takes, {"seconds": 1}),
}

MADE_HERE = {
    *(
        "Evidence",
        "Finding",
        "Matrix",
        "Migration",
        "Planned",
        "Problem",
        "Property",
        "Proposal",
        "Report",
        "Row",
        "Run",
    ),
    *("ModelRequest", "Place", "Span", "ToolCall", "ToolContext", "Transition"),
    *("Continuing", "Limits", "ModelReply", "Suspend"),  # data: who gets it looks at it
    *("Model", "ReplyCache", "Tools"),  # protocols
    *("MemoryJournal", "NamedModels"),  # no parameters, and a test of its own
}

SAID_OTHERWISE = {
    ("assert_valid", "program"),  # AssertionError: it is no program, and that fails the test
    ("Bench.resume", "step"),  # LookupError: the run does not wait there
    ("Bench.resume", "by"),
    ("Bench.reconcile", "verdict"),
    ("Bench.reconcile", "by"),
}
"""Documented errors that are of another kind."""

WORDS: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("None", type(None)),
    ("int|float|Decimal", int),
    ("str|FilePath|Verdict|Effect|Structured|KeySource", str),
    ("bytes", bytes),
    ("Mapping|dict", dict),
)


def _signature(name: str) -> inspect.Signature:
    called = DOORS[name][0]
    if name.startswith("ExecutionVM."):
        called = getattr(_machine(), name.partition(".")[2])
    return inspect.signature(called)


def _wrong(annotation: str) -> list[Any]:
    """Return the probes that no reader of an annotation would give."""
    outer = re.sub(r"\[[^][]*\]", "", re.sub(r"\[[^][]*\]", "", annotation))  # what a sequence holds is in brackets
    right = tuple(kind for words, kind in WORDS if re.search(rf"\b({words})\b", outer))
    if "Any" in outer.split(" | ") or "object" in outer.split(" | ") or outer == "bool":
        return []
    return [probe for probe in PROBES if not isinstance(probe, right)]


PARAMETERS = [
    (name, one.name)
    for name in DOORS
    for one in _signature(name).parameters.values()
    if one.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_wrong_argument_is_named(name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    called, right = DOORS[name]
    for probe in _wrong(str(_signature(name).parameters[parameter].annotation)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is looked at below
            _call(called, {**right, parameter: probe})
        if isinstance(caught.value, TypeError | ValueError):
            assert re.search(rf"`{parameter}(\[\d+\])?`", str(caught.value)), repr(probe)
        else:
            assert isinstance(caught.value, StepwardError) or (name, parameter) in SAID_OTHERWISE, repr(probe)


def _call(called: Callable[..., Any], arguments: dict[str, Any]) -> None:
    result = called(**arguments)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def test_every_public_function_is_a_door() -> None:
    """What the machine or the checker makes, and what only has data, is none: nobody but them calls it."""
    doors = {name.partition(".")[0] for name in DOORS}
    for module in (stepward.vm, stepward.validator, stepward.sabotage, stepward.testing):
        for name in module.__all__:
            thing = getattr(module, name)
            is_error = isinstance(thing, type) and issubclass(thing, BaseException | enum.Enum)
            assert is_error or name in doors or name in MADE_HERE, name
    assert not MADE_HERE & doors


@pytest.mark.parametrize("model", [None, 5, "gpt", ScriptedModel])
def test_a_named_model_is_asked_for_its_method(model: Any) -> None:
    with pytest.raises(TypeError, match="`small` must be an object with a method `complete"):
        NamedModels(MODEL, small=model)
    if model is not None:
        with pytest.raises(TypeError, match="`usual` must be an object with a method `complete"):
            NamedModels(model)


@pytest.mark.parametrize("found", [None, 5, ProgramValidator(PROGRAM).validate()])
def test_a_checker_returns_findings(found: Any) -> None:
    with pytest.raises(TypeError, match="`checker` must return findings"):
        ExecutionVM(checker=lambda program, policies: found).run_sync(PROGRAM)


WANTED = "`program` must be a Program, such as `Program.load(path)` or `Program.from_dict(data)`"


@pytest.mark.parametrize(
    ("program", "policies", "message"),
    [
        ("p.yaml", (), f"{WANTED}, not a str"),
        (Program, (), f"{WANTED}, not the class Program"),
        (PROGRAM, "p.yaml", "`policies` must be a list, a tuple or the like, each item a Policy, not a str"),
        (PROGRAM, [Policy.from_dict({"policy": "p"}), None], "`policies[1]` must be a Policy, not None"),
    ],
)
def test_the_message_says_what_the_parameter_takes(program: Any, policies: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        check_program(program, policies)


@pytest.mark.parametrize(
    "load", [Program.load, Program.load_all, Policy.load, Pins.load, Script.load, Bench, assert_valid]
)
def test_a_file_that_is_not_there_is_an_error_of_the_system(load: Callable[[str], Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nosuch\.yaml"):
        load(str(tmp_path / "nosuch.yaml"))
