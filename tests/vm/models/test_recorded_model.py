"""Fast: replies are recorded once and played back; what differs, and what is damaged, is told."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import ModelFailed, ModelRefused, ModelReply, ModelRequest, Program, RecordedModel, ScriptedModel
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import parameters_of
from stepward.vm.values import freeze

SECRET = "the words of a customer"


class Real:
    """A model that says something else each time; it is no async one."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = {"model": "real", **parameters}
        self.asked: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return ModelReply(f"reply {len(self.asked)}", 7, Decimal("0.001"), "real-1")


BASE = ModelRequest(SECRET, None, None, None, "judge", 1, 1)


def ask(model: Any, request: ModelRequest = BASE) -> ModelReply:
    reply: ModelReply = asyncio.run(model.complete(request))
    return reply


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


def test_a_reply_is_recorded_once_and_played_with_what_it_cost(file: Path) -> None:
    real = Real()
    reply = ModelReply("reply 1", 7, Decimal("0.001"), "real-1")
    assert [ask(RecordedModel(file, real)), ask(RecordedModel(file, real)), ask(RecordedModel(file))] == [reply] * 3
    assert len(real.asked) == 1


OTHERS = [
    BASE._replace(prompt="another"),
    BASE._replace(system="be brief"),
    BASE._replace(allowed=("yes", "no")),
    BASE._replace(schema={"type": "object"}),
    BASE._replace(step="other"),
    BASE._replace(visit=2),
    BASE._replace(attempt=2),
]


def test_everything_that_decides_a_reply_tells_requests_apart(file: Path) -> None:
    requests = [BASE, *OTHERS, BASE._replace(allowed=("no", "yes")), BASE._replace(system="")]
    recording = RecordedModel(file, Real())
    assert [ask(recording, one).content for one in requests] == [f"reply {n}" for n in range(1, 11)]
    playing = RecordedModel(file)
    assert [ask(playing, one).content for one in requests] == [f"reply {n}" for n in range(1, 11)]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (OTHERS[0], "what is asked differs from what was recorded in `prompt`"),
        (OTHERS[1], "what is asked differs from what was recorded in `system`"),
        (OTHERS[2]._replace(system="x"), "what is asked differs from what was recorded in `system` and `allowed`"),
        (OTHERS[3], "what is asked differs from what was recorded in `schema`"),
        (OTHERS[4], "no reply to this step was recorded"),
        (OTHERS[5], "other visits or attempts of the step were recorded, and not this one"),
        (OTHERS[6], "other visits or attempts of the step were recorded, and not this one"),
    ],
)
def test_a_reply_that_was_not_recorded_is_told_with_what_differs(
    file: Path, request_: ModelRequest, words: str
) -> None:
    ask(RecordedModel(file, Real()))
    with pytest.raises(ModelFailed) as found:
        ask(RecordedModel(file), request_)
    where = f"step `{request_.step}` (visit {request_.visit}, attempt {request_.attempt})"
    assert str(found.value) == f"`{file}` has no reply for {where}: {words}"


def test_the_prompt_is_not_in_the_file_unless_asked_for(file: Path, tmp_path: Path) -> None:
    ask(RecordedModel(file, Real()), BASE._replace(system="system words", allowed=("first choice",)))
    content = file.read_text()
    assert not any(text in content for text in (SECRET, "system words", "first choice"))
    other = tmp_path / "with_texts.jsonl"
    ask(RecordedModel(other, Real(), texts=True), BASE._replace(system="system words"))
    assert json.loads(other.read_text().splitlines()[1])["texts"] == {"prompt": SECRET, "system": "system words"}
    assert ask(RecordedModel(other), BASE._replace(system="system words")).content == "reply 1"


@pytest.mark.parametrize(
    "content",
    ["", "#n5", "ümlaut\n", None, True, 3, Decimal("1.10"), 2**70, [1, {"a": [None]}], {"reply": "x", "#": "#v"}],
)
@pytest.mark.parametrize("cost", [None, 0, Decimal("0.30000000000000004")])
def test_any_value_comes_back_as_it_was(file: Path, content: Any, cost: Any) -> None:
    ask(RecordedModel(file, ScriptedModel({"judge": ModelReply(content, 3, cost, "m")})))
    assert ask(RecordedModel(file)) == ModelReply(freeze(content), 3, cost, "m")


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply({1}),
        ModelReply(float("nan")),
        ModelReply("\ud800"),
        ModelReply("x", tokens="many"),  # type: ignore[arg-type]
        ModelReply("x", cost=-1),
        ModelReply("x", cost="1"),  # type: ignore[arg-type]
        ModelReply("x", model=3),  # type: ignore[arg-type]
    ],
)
def test_what_no_file_can_hold_goes_to_the_machine_and_is_not_recorded(file: Path, reply: ModelReply) -> None:
    assert ask(RecordedModel(file, ScriptedModel({"judge": reply}))) is reply
    assert not file.exists()


def test_a_failed_call_is_not_recorded(file: Path) -> None:
    with pytest.raises(ModelFailed, match="cut off"):
        ask(RecordedModel(file, ScriptedModel({"judge": ModelFailed("cut off")})))
    assert not file.exists()


PROGRAM = """
name: p
inputs: {}
steps:
  - {id: judge, type: llm, prompt: "yes?", allowed_outputs: [reply 2, reply 3], output_key: x,
     on_error: retry, max_retries: 3, next_step: again}
  - {id: again, type: condition, condition: '$x == "reply 3"', then: done, otherwise: judge}
  - {id: done, type: end, output: $x}
"""


def test_a_run_with_retries_and_visits_is_played_record_by_record(file: Path) -> None:
    program, real, runs = Program.from_yaml(PROGRAM), Real(), []
    for model in (real, real, None):
        machine = unchecked(model=RecordedModel(file, model), clock=ManualClock(), random=bytes)
        runs.append(machine.run_sync(program, run_id="r"))
    assert len(real.asked) == 3
    assert {(run.output, run.tokens, run.cost, run.trace_hash) for run in runs} == {
        ("reply 3", 21, Decimal("0.003"), runs[0].trace_hash)
    }


# -- the model of a file -----------------------------------------------------------------------------------------------


def test_a_file_is_of_one_model_with_one_set_of_parameters(file: Path) -> None:
    ask(RecordedModel(file, Real(temperature=0.5)))
    assert dict(RecordedModel(file).parameters) == {"adapter": "Real", "model": "real", "temperature": Decimal("0.5")}
    assert parameters_of(RecordedModel(file)) == parameters_of(RecordedModel(file, Real(temperature=0.5)))
    words = r"are of another model \(`seed`, `temperature` differ\): record into another file, or delete this one"
    with pytest.raises(ModelRefused, match=words):
        RecordedModel(file, Real(temperature=0.7, seed=1))


def test_parameters_of_true_are_not_those_of_one(file: Path) -> None:
    ask(RecordedModel(file, Real(stops=1)))
    RecordedModel(file, Real(stops=1.0))
    with pytest.raises(ModelRefused, match="`stops` differ"):
        RecordedModel(file, Real(stops=True))


def test_a_file_that_became_another_models_meanwhile_is_not_changed(file: Path) -> None:
    late = RecordedModel(file, Real(seed=1))
    ask(RecordedModel(file, Real(seed=2)))
    before = file.read_bytes()
    with pytest.raises(ModelFailed, match="are of another model"):
        ask(late)
    assert file.read_bytes() == before


def test_a_model_whose_parameters_are_no_data_is_refused(file: Path) -> None:
    with pytest.raises(ModelRefused, match="can't be recorded, because its `parameters` are no plain data"):
        RecordedModel(file, Real(seed={1}))


# -- files -------------------------------------------------------------------------------------------------------------


def test_without_a_file_and_a_model_nothing_can_be_played(file: Path) -> None:
    with pytest.raises(ModelRefused, match=r"there are no replies at `.*`: record them first"):
        RecordedModel(file)


HEAD = '{"model":{"adapter":"Real","model":"real"},"stepward_replies":1}'


def line(**changed: Any) -> str:
    row = {
        "step": "judge", "visit": 1, "attempt": 1, "prompt": "0" * 32, "system": None, "allowed": None, "schema": None,
        "content": "x", "tokens": 1, "cost": 0, "model": "m",
    }  # fmt: skip
    return json.dumps({**row, **changed})


DAMAGED = [
    ("", "holds no replies: delete it to record new ones"),
    ("judge: yes\n", "line 1 of `FILE` is damaged: it is not JSON as it was written"),
    ("[]\n", "line 1 of `FILE` is damaged: it is no JSON object"),
    ("{}\n", "is no file of recorded replies"),
    (HEAD.replace("1}", "2}"), "has version `2`; this version of Stepward reads 1"),
    (f"{HEAD}\n{line()[:-9]}", "line 2 of `FILE` is damaged: it is not JSON as it was written"),
    (f"{HEAD}\n3", "line 2 of `FILE` is damaged: it is no JSON object"),
    (f"{HEAD}\n" + "[" * 100_000, "line 2 of `FILE` is damaged: it is not JSON as it was written"),
    (f"{HEAD}\n{line(more=1)}", "line 2 of `FILE` is damaged: its fields are not those of a reply"),
    (f"{HEAD}\n{line(visit='1')}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(tokens=True)}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(cost='1')}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(cost=-1)}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(cost=0.5)}", "line 2 of `FILE` is damaged: it is not JSON as it was written"),
    (f"{HEAD}\n{line(prompt=None)}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(schema=[])}", "line 2 of `FILE` is damaged: a field has the wrong type"),
    (f"{HEAD}\n{line(content='#v1:2')}", "line 2 of `FILE` is damaged: it is not JSON as it was written"),
    (f"{HEAD}\n{line()}\n{line(content='y')}", "line 3 of `FILE` is damaged: it answers a request that another line"),
]


@pytest.mark.parametrize(("content", "words"), DAMAGED)
def test_a_damaged_file_is_told(file: Path, content: str, words: str) -> None:
    file.write_text(content)
    for model in (None, Real()):
        with pytest.raises(ModelRefused) as found:
            RecordedModel(file, model)
        assert words.replace("FILE", str(file)) in str(found.value)
    assert file.read_text() == content, "a damaged file is left as it is"


def test_a_line_that_a_person_wrote_is_played(file: Path) -> None:
    file.write_text(f"{HEAD}\n\n{line()}\n")
    assert RecordedModel(file).parameters["model"] == "real"


def test_bytes_that_are_no_text_are_told(file: Path) -> None:
    file.write_bytes(b"\xff")
    with pytest.raises(ModelRefused, match="is no file of recorded replies: it is not UTF-8"):
        RecordedModel(file)


def test_a_file_that_is_too_large_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.vm.models.recordings.MOST_BYTES", 10)
    file.write_text(HEAD)
    with pytest.raises(ModelRefused, match="have more than the 10 bytes allowed"):
        RecordedModel(file)


def test_a_folder_that_is_not_there_or_a_folder_as_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="can't be written: no such file") as found:
        ask(RecordedModel(tmp_path / "none/replies.jsonl", Real()))
    assert found.value.spent.tokens == 7, "the reply is paid for"
    with pytest.raises(ModelRefused, match="can't be read: is a directory"):
        RecordedModel(tmp_path, Real())


def test_a_write_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(RecordedModel(file, Real()))
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(ModelFailed, match="can't be written: no space left on device"):
        ask(RecordedModel(file, Real()), OTHERS[0])
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


# -- several at once ---------------------------------------------------------------------------------------------------


def test_threads_and_tasks_that_record_lose_nothing(file: Path) -> None:
    def record(prefix: str) -> None:
        model = RecordedModel(file, Real())

        async def all_of_them() -> None:
            await asyncio.gather(*(model.complete(BASE._replace(prompt=f"{prefix}{n}")) for n in range(5)))

        asyncio.run(all_of_them())

    threads = [threading.Thread(target=record, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    playing = RecordedModel(file)
    assert all(ask(playing, BASE._replace(prompt=f"{name}{n}")).content for name in "abcd" for n in range(5))


@pytest.mark.usefixtures("warm")
def test_processes_that_record_lose_nothing(file: Path) -> None:
    code = f"""
import asyncio, sys
from stepward.vm import ModelRequest, RecordedModel, ScriptedModel
model = RecordedModel({str(file)!r}, ScriptedModel({{"judge": sys.argv[1]}}))
for n in range(10):
    asyncio.run(model.complete(ModelRequest(sys.argv[1] + str(n), None, None, None, "judge", 1, 1)))
"""
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [one.wait(60) for one in running] == [0, 0]
    playing = RecordedModel(file)
    assert [ask(playing, BASE._replace(prompt=f"{name}{n}")).content for name in "ab" for n in range(10)] == [
        *["a"] * 10,
        *["b"] * 10,
    ]


def test_the_first_of_two_replies_to_one_request_stays(file: Path) -> None:
    first, second = RecordedModel(file, Real()), RecordedModel(file, ScriptedLikeReal())
    ask(first)
    assert ask(second).content == "other", "what was paid for is what the run gets"
    assert ask(RecordedModel(file)).content == "reply 1"


class ScriptedLikeReal(Real):
    __qualname__ = "Real"

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply("other")
