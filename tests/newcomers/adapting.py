"""Whether the adapter of the newcomer connects the model service, and leaves retries and judging to the machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from desk_service import KEY, READ, WRITTEN, serving
from stepward.validator import check_program
from stepward.vm import ExecutionVM, Program
from trial import Trial

MESSAGE = 'Please pay 12.5 to Ada. $message {braces} "quotes" and äöü'
FOUND = '{"sender": "Ada", "total": 12.5}'
KINDS = ["invoice", "complaint", "other"]
COST = READ + WRITTEN


@dataclass(frozen=True)
class Case:
    """What the service replies, and what has to come of it: status and tokens of the run, number of questions."""

    name: str
    replies: list[tuple[int, str]]
    status: str
    asked: int
    tokens: int


CASES = [
    Case("two good answers", [(200, "invoice"), (200, FOUND)], "SUCCESS", 2, 2 * COST),
    Case("a service that is busy at the first question", [(503, "busy")], "FAILED", 1, 0),
    Case("a service that is busy twice", [(200, "other"), (503, ""), (503, ""), (200, FOUND)], "SUCCESS", 4, 2 * COST),
    Case("an error with an answer in it", [(500, "invoice")], "FAILED", 1, 0),
    Case("an answer that is none of those wanted", [(200, "An invoice, I think.")], "FAILED", 1, COST),
    Case("an answer that lacks a field", [(200, "other"), *[(200, "{}")] * 3], "FAILED", 4, 4 * COST),
]


def adapted(trial: Trial) -> Iterator[str]:
    """Yield what is missing of the adapter."""
    before = (trial.start / "sorting.yaml").read_bytes()
    if (trial.folder / "sorting.yaml").read_bytes() != before:
        yield "`sorting.yaml` was changed"
    try:
        adapter = load(trial)
    except Exception as error:  # whatever the newcomer's module does
        yield f"`adapter.py` has no usable `DeskModel`: {error!r}"
        return
    program = Program.load(trial.start / "sorting.yaml")
    for case in CASES:
        yield from (f"{case.name}: {problem}" for problem in played(program, adapter, case))


def load(trial: Trial) -> Any:
    """Import the module of the newcomer, and return its class."""
    spec = importlib.util.spec_from_file_location("adapter_of_a_newcomer", trial.folder / "adapter.py")
    if spec is None or spec.loader is None:
        raise ImportError("no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DeskModel


def played(program: Program, adapter: Any, case: Case) -> Iterator[str]:
    """Play one case, and yield what is wrong."""
    with serving(case.replies) as service:
        try:
            machine = ExecutionVM(model=adapter(service.url, KEY), checker=check_program, retry_delay=lambda _: 0)
            run = machine.run_sync(program, {"message": MESSAGE})
        except Exception as error:  # whatever the newcomer's class does
            yield f"the run could not be made: {error!r}"
            return
    found = (run.status, len(service.asked), run.tokens)
    if found != (case.status, case.asked, case.tokens):
        wanted = (case.status, case.asked, case.tokens)
        yield f"status, questions and tokens should be {wanted}, and are {found} ({run.error or run.reason})"
    if run.status == "SUCCESS" and (run.output["sender"], str(run.output["total"])) != ("Ada", "12.5"):
        yield f"the output is {run.output}"
    for number, question in enumerate(service.asked):
        yield from misread(question, is_first=number == 0)


def misread(question: tuple[str, str | None, Any], *, is_first: bool) -> Iterator[str]:
    """Yield what is wrong with a request."""
    path, key, body = question
    if (path, key) != ("/v2/answers", KEY) or not isinstance(body, dict):
        yield f"a request goes to `{path}` with key {key!r}"
        return
    prompt = f"Sort this message: {MESSAGE}" if is_first else f"Find the sender and the sum in this message: {MESSAGE}"
    messages = [{"role": "user", "text": prompt}]
    if is_first:
        messages.insert(0, {"role": "system", "text": "You sort messages."})
    if body.get("messages") != messages:
        yield f"the messages are {body.get('messages')}"
    if body.get("one_of") != (KINDS if is_first else None):
        yield f"`one_of` is {body.get('one_of')}"
    schema = body.get("json_schema")
    if is_first != (schema is None) or (schema is not None and set(schema.get("required", ())) != {"sender", "total"}):
        yield f"`json_schema` is {schema}"
