"""Models by the names that steps give, and what a step says of a call: sent, cached under it, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from machines import unchecked
from stepward.validator import ProgramValidator
from stepward.validator.cli.models import ModelUnknown, load_model
from stepward.vm import NamedModels, Program, RecordedModel
from stepward.vm.errors import ProgramError
from stepward.vm.machine.models import ModelReply, ModelRequest, ScriptedModel
from stepward.vm.machine.run import Run
from stepward.vm.models.cache import reply_key
from stepward.vm.models.chat import settings_of
from stepward.vm.models.recordings import key_of
from stepward.vm.models.refusals import ModelRefused

BASE = ModelRequest("?", None, None, None, "ask", 1, 1)


class Told:
    """A model that says its name, and keeps the requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[ModelRequest] = []

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"model": self.name}

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return ModelReply(self.name)


def program(**fields: Any) -> Program:
    ask = {"id": "ask", "type": "llm", "prompt": "?", **fields}
    end = {"id": "done", "type": "end", "output": "$ask.output"}
    return Program.from_dict({"language": 2, "steps": [ask, end]})


def ran(model: Any, made: Program) -> Run:
    return asyncio.run(unchecked({}, model).run(made, {}))


def test_a_step_gets_the_model_that_it_names() -> None:
    usual, small = Told("usual"), Told("small")
    models = NamedModels(usual, small=small)
    assert ran(models, program()).output == "usual"
    run = ran(models, program(model="small", temperature=0.5, max_output_tokens=20))
    assert run.output == "small"
    (request,) = small.asked
    assert (request.model, request.max_output_tokens) == (None, 20)
    assert settings_of(request) == {"temperature": 0.5, "max_tokens": 20}
    assert settings_of(request, "max_completion_tokens")["max_completion_tokens"] == 20


@pytest.mark.parametrize("models", [Told("one"), NamedModels(Told("one"), large=Told("two"))])
def test_a_name_that_nobody_knows_fails_and_asks_nobody(models: Any) -> None:
    run = ran(models, program(model="small"))
    assert run.status == "FAILED"
    assert "the machine has no model of that name" in str(run.error)
    assert not getattr(models, "asked", [])


def test_without_a_usual_model_every_step_has_to_say_a_name() -> None:
    models = NamedModels(small=Told("small"))
    assert ran(models, program(model="small")).output == "small"
    run = ran(models, program())
    assert "there is no model for a step with no name" in str(run.error)


def test_names_of_names_are_refused() -> None:
    with pytest.raises(ModelRefused, match="without names of its own"):
        NamedModels(small=NamedModels(Told("one")))


def test_what_the_step_says_is_part_of_the_key_and_of_the_recording() -> None:
    plain = reply_key({}, "?", None, None, None)
    assert reply_key({}, "?", None, None, None, {}) == plain
    assert len({plain, *(reply_key({}, "?", None, None, None, {"temperature": one}) for one in (0, 1))}) == 3
    assert key_of(BASE).settings is None
    settings = [{"model": "small"}, {"model": "large"}, {"temperature": 0}, {"max_output_tokens": 5}]
    keys = [key_of(BASE._replace(**one)).settings for one in settings]
    assert len({*keys, None}) == 5
    assert key_of(BASE).differences(key_of(BASE._replace(model="small"))) == ["settings"]


def test_a_recording_tells_names_apart_and_old_lines_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    models = RecordedModel(file, NamedModels(Told("usual"), small=Told("small")))
    for fields in ({}, {"model": "small"}):
        ran(models, program(**fields))
    lines = file.read_text(encoding="utf-8").splitlines()
    assert ["settings" in line for line in lines[1:]] == [False, True]
    played = RecordedModel(file)
    assert ran(played, program(model="small")).output == "small"
    run = ran(played, program(model="large"))
    assert "differs from what was recorded in `settings`" in str(run.error)


@pytest.mark.parametrize("field", [{"model": "small"}, {"temperature": 0}, {"max_output_tokens": 9}])
def test_the_fields_need_language_2(field: dict[str, Any]) -> None:
    ask = {"id": "ask", "type": "llm", "prompt": "?", **field}
    for steps in ([ask], [{"id": "both", "type": "parallel", "parallel_steps": [ask]}]):
        with pytest.raises(ProgramError) as caught:
            Program.from_dict({"steps": steps})
        (problem,) = caught.value.problems
        assert (problem.code, problem.message) == ("SW002", f"the field `{next(iter(field))}` needs language 2")
        report = ProgramValidator(Program.from_dict({"language": 2, "steps": steps})).validate()
        assert not [one for one in report.findings if one.severity == "error"]


@pytest.mark.parametrize(
    "field", [{"model": ""}, {"temperature": -1}, {"temperature": "hot"}, {"max_output_tokens": 0}]
)
def test_values_that_no_model_takes_are_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        program(**field)


def test_a_script_takes_every_name() -> None:
    assert ran(ScriptedModel({"ask": "a"}), program(model="any")).output == "a"


ADAPTERS = """
class Told:
    def __init__(self, word="usual"):
        self.parameters = {"word": word}

    def complete(self, request):
        from stepward.vm import ModelReply

        return ModelReply(self.parameters["word"])


class Other(Told):
    def complete(self, request):
        from stepward.vm import ModelReply

        return ModelReply("other")
"""


def test_the_file_of_options_names_further_models(tmp_path: Path) -> None:
    adapters, options = tmp_path / "adapters.py", tmp_path / "options.yaml"
    adapters.write_text(ADAPTERS, encoding="utf-8")
    options.write_text(f"word: said\nmodels: {{small: '{adapters}:Other'}}\n", encoding="utf-8")
    models: Any = load_model({"model": f"{adapters}:Told", "model_options": options, "prices": None})
    assert ran(models, program()).output == "said"
    assert ran(models, program(model="small")).output == "other"
    options.write_text("models: [small]\n", encoding="utf-8")
    with pytest.raises(ModelUnknown, match="`models` is no mapping"):
        load_model({"model": f"{adapters}:Told", "model_options": options, "prices": None})
