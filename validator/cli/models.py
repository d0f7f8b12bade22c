"""The model that the options of a command name: a script, a recording, a server, the user's own, or LiteLLM's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stepward.validator.cli.ranges import FILE
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.vm.machine.models import Model
    from stepward.vm.models.prices import PriceTable

F = TypeVar("F", bound=Callable[..., Any])

FORMS: Final = (
    "`script:FILE` with a reply for each step, `recorded:FILE`, `record:FILE:MODEL`, `openai:NAME`, "
    "`FILE.py:ADAPTER`, or a name that LiteLLM knows"
)


class ModelUnknown(AdvisedError):  # noqa: N818 - a name without Error
    """The options of a command name no model that can be used."""


def model_options(function: F) -> F:
    """Add the options that name the model of a machine."""
    file = FILE
    for option in (
        click.option(
            "--prices", type=file, metavar="FILE", help="A table of prices, for the cost of the model's replies."
        ),
        click.option(
            "--model-options",
            type=file,
            metavar="FILE",
            help="Options of the model, such as its `base_url`, as one YAML or JSON mapping.",
        ),
        click.option(
            "--model",
            metavar="NAME",
            help="The model for llm steps: `script:FILE`, `recorded:FILE`, `record:FILE:MODEL`, `openai:NAME`, "
            "`FILE.py:ADAPTER` for your own, or a name that LiteLLM knows.",
        ),
    ):
        function = option(function)
    return function


def load_model(options: dict[str, Any]) -> Model | None:
    """Return the model that the options name, if any.

    Raises ModelUnknown, ModelRefused or ValueUnreadable for options that name none.
    """
    name = options.get("model")
    if name is None:
        for option in ("model_options", "prices"):
            if options.get(option) is not None:
                raise ModelUnknown(f"`{_flag(option)}` is given without `--model`", f"give a model: {FORMS}")
        return None
    usual = _model(name, options)
    named = _file(options).get("models")
    if named is None:
        return usual
    if not isinstance(named, dict) or not all(isinstance(one, str) for one in named.values()):
        raise ModelUnknown("`models` is no mapping of names to models", "write `models: {small: openai:NAME}`")
    from stepward.vm.models.named import NamedModels

    return NamedModels(usual, **{one: _model(other, options) for one, other in named.items()})


def _model(name: str, options: dict[str, Any]) -> Model:
    kind, separator, rest = name.partition(":")
    if not name or (separator and not rest):
        raise ModelUnknown("`--model` names no model", f"write {FORMS}")
    match kind if separator else "":
        case "script":
            from stepward.validator.cli.values import values_in
            from stepward.vm.machine.models import ScriptedModel

            _refuse_options(options, kind)
            replies = values_in(rest, "replies")
            return ScriptedModel(replies, parameters={"script": replies})
        case "recorded":
            from stepward.vm.models.recorded import RecordedModel

            _refuse_options(options, kind)
            return RecordedModel(rest)
        case "record":
            return _recording(rest, options)
        case "openai":
            return _openai(rest, options)
        case file if file.endswith(".py"):
            return _own(file, rest, options)
        case _:
            from stepward.vm.models.litellm import LiteLLMModel

            with redirect_stdout(sys.stderr):  # LiteLLM prints a lot when it is imported
                return LiteLLMModel(name, prices=_prices(options), **_settings(options))


def _recording(rest: str, options: dict[str, Any]) -> Model:
    from stepward.vm.models.recorded import RecordedModel

    file, _, recorded = rest.partition(":")
    if not file or not recorded or recorded.startswith(("record:", "recorded:")):
        help = "write `--model record:FILE:MODEL`, such as `record:replies.jsonl:openai:small`"
        raise ModelUnknown(f"`--model record:{rest}` does not name a file and a model to record", help)
    return RecordedModel(file, _model(recorded, options))


def _openai(name: str, options: dict[str, Any]) -> Model:
    from stepward.vm.models.openai import OpenAIModel

    settings = _settings(options)
    if "base_url" not in settings:
        help = "write `base_url: https://models.example.com/v1` into a YAML file, and name it with `--model-options`"
        raise ModelUnknown(f"the address of model `{name}` is not known", help)
    return OpenAIModel(name, prices=_prices(options), **settings)


def _own(file: str, path: str, options: dict[str, Any]) -> Model:
    """Return an adapter of the user: an object in a file, or what a class or function there makes of the options."""
    from stepward.validator.cli.objects import load_file, part_of
    from stepward.vm.machine.equipment import require_model

    if options.get("prices") is not None:
        raise ModelUnknown("`--prices` has no meaning for an adapter of your own", "let the adapter say the cost")
    name = f"{file}:{path}"
    found = part_of(
        load_file(file), path, name, "write `--model FILE.py:ADAPTER`, with the name of a class or an object"
    )
    settings = _settings(options)
    if isinstance(found, type) or not hasattr(found, "complete"):
        try:
            found = found(**settings)
        except Exception as error:  # it is the user's code
            words = f"`{name}` can't be made: {type(error).__name__}: {error}"
            raise ModelUnknown(words, "give its arguments in a YAML file, with `--model-options FILE`") from error
    elif settings:
        raise ModelUnknown(f"`{name}` is an adapter already", "name its class, so that it is made with these options")
    try:
        require_model(found)
    except TypeError as error:
        raise ModelUnknown(f"`{name}`: {error}", "see the page about adapters of your own") from None
    model: Model = found
    return model


def _refuse_options(options: dict[str, Any], kind: str) -> None:
    for option in ("model_options", "prices"):
        if options.get(option) is not None:
            help = "leave the option out: no model is asked"
            raise ModelUnknown(f"`{_flag(option)}` has no meaning for a model `{kind}:FILE`", help)


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _prices(options: dict[str, Any]) -> PriceTable | None:
    from stepward.vm.models.prices import PriceTable

    return None if options.get("prices") is None else PriceTable.load(options["prices"])


def _file(options: dict[str, Any]) -> dict[str, Any]:
    """Return what the file of `--model-options` says, as plain data."""
    file = options.get("model_options")
    if file is None:
        return {}
    from stepward.validator.cli.values import values_in
    from stepward.vm.models.chat import plain

    settings: dict[str, Any] = plain(values_in(str(file), "options"))
    return settings


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a model in a file; the names of further models are no option of one."""
    file, settings = options.get("model_options"), _file(options)
    settings.pop("models", None)
    by_option = {"model": "--model NAME", "prices": "--prices FILE"}
    for name in settings:
        if name in by_option:
            raise ModelUnknown(f"`{file}` sets `{name}`", f"give it with `{by_option[name]}`")
    return settings
