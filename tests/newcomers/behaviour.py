"""Hidden runs: what a program does with the answers of its tools and models, held against a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stepward.testing import Bench, FakeError, takes
from stepward.vm import ModelReply, ModelRequest, Program, StepwardError, Suspend

MAX_ASKED = 60
"""How often a model answers in one run: a program that asks more often has no bound."""


@dataclass(frozen=True)
class Run:
    """A hidden run: what goes in, and what has to come out.

    `does` lists the calls of the tools that write. `asked` says how often a model is asked at a step, `told` what a
    prompt of a step has to contain.
    """

    name: str
    inputs: dict[str, Any]
    answers: dict[str, Any]
    does: list[dict[str, Any]]
    ends: str
    resumes: list[Any] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    is_wrong_at_start: bool = False


def runs_of(table: dict[str, Any]) -> list[Run]:
    """Return the runs of a table; each overrides what is usual."""
    usual = table["usual"]
    return [
        Run(
            **{
                **one,
                "inputs": {**usual["inputs"], **one.get("inputs", {})},
                "answers": {**usual["answers"], **one.get("answers", {})},
            }
        )
        for one in table["runs"]
    ]


class Replies:
    """A model that answers as a run says, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the step: of a list the next one, and then the last one again and again."""
        self.requests.append(request)
        if len(self.requests) > MAX_ASKED:
            raise RuntimeError("the model is asked too often")
        given = self.answers.get(request.step, request.allowed[0] if request.allowed else "some text")
        if isinstance(given, list):
            asked = sum(one.step == request.step for one in self.requests)
            given = given[min(asked, len(given)) - 1]
        return ModelReply(given, tokens=1)


def answer_of(value: Any) -> Any:
    """Return the output of a fake tool for a value of the table."""
    match value:
        case {"raises": str(text), **rest} if not rest:
            return ConnectionError(text)
        case {"waits": True, **rest} if not rest:
            return Suspend()
        case {"takes": seconds, **rest} if not rest:
            return takes(seconds, "late")
        case list(values):
            return [answer_of(one) for one in values]
    return value


def differences(program: Program, run: Run, writes: list[str], secret: str = "") -> Iterator[str]:
    """Yield in what a program differs from a hidden run; `secret` is a text that no model may read."""
    tools = set(program.tools or {})
    model = Replies({name: value for name, value in run.answers.items() if name not in tools})
    try:
        bench = Bench(program, {n: answer_of(v) for n, v in run.answers.items() if n in tools}, model)
        made = bench.run(run.inputs)
        for payload in run.resumes:
            made = bench.resume(made, payload)
    except (FakeError, StepwardError, LookupError) as error:
        yield f"{run.name}: {error}"
        return
    does = [{call.tool: dict(call.args)} for call in bench.tools.calls if call.tool in writes]
    if does != run.does:
        yield f"{run.name}: the tools should do {run.does}, and did {does}"
    if made.status != run.ends:
        yield f"{run.name}: the run should end {run.ends}, and ended {made.status}"
    asked = Counter(request.step for request in model.requests)
    for step, count in run.asked.items():
        if asked[step] != count:
            yield f"{run.name}: `{step}` should ask {count} times, and asked {asked[step]} times"
    for step, words in run.told.items():
        prompts = " ".join(request.prompt for request in model.requests if request.step == step)
        yield from (f"{run.name}: the prompt of `{step}` lacks `{word}`" for word in words if word not in prompts)
    if secret and any(secret in f"{request.prompt} {request.system}" for request in model.requests):
        yield f"{run.name}: the secret reaches a model"
