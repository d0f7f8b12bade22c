"""A model that plays recorded replies, and records those that are missing."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from stepward.vm.arguments import PATH, require
from stepward.vm.machine.equipment import require_model
from stepward.vm.machine.models import (
    ANY_NAME,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    names_of,
    parameters_of,
    reply_of,
)
from stepward.vm.models.recordings import Key, Recording, can_be_kept, key_of
from stepward.vm.models.refusals import ModelRefused
from stepward.vm.values import ValueRefused, freeze


class ReplyMissing(ModelFailed):
    """A recording has no reply for a request: the message names the step, and what differs from what was recorded."""


class RecordedModel:
    """Plays the replies in a file: `RecordedModel("replies.jsonl")`.

    With a `model`, that is asked for each reply that the file does not have, and its reply is added to the file. What
    is played costs as many tokens and as much as it did. Failed calls are not recorded.

    A reply belongs to a step, a visit, an attempt, and to everything that was asked: prompt, system text, accepted
    replies, schema, and what the step says of the model and of the call. All replies of a file are of one model with
    one set of parameters. The file has digests of the prompts; with `texts` it also has the prompts themselves, for
    people who read it.

    Raises ModelRefused for a damaged file, for one of another model, and for a missing one if there is no `model`.
    """

    def __init__(self, file: str | Path, model: Model | None = None, *, texts: bool = False) -> None:
        require(PATH, file=file)
        if model is not None:
            require_model(model)
        self._model = model
        self._texts = texts
        self._recording = Recording(Path(file))
        if model is not None:
            self._own = _data(parameters_of(model))
            self._recording.require(self._own)
        elif self._recording.parameters is None:
            raise ModelRefused(f"there are no replies at `{file}`: record them first, with a model that is asked")

    @property
    def names(self) -> Container[object]:
        """The names of models that the recorded model knows; every name where replies are only played."""
        return ANY_NAME if self._model is None else names_of(self._model)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the model that was, or is, recorded."""
        return self._own if self._model is not None else self._recording.parameters or {}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply, or that of the model.

        Raises ReplyMissing without one, ModelFailed if the file can't be written, and what the model raises.
        """
        key = key_of(request)
        known = self._recording.replies.get(key)
        if known is not None:
            return known
        if self._model is None:
            raise ReplyMissing(self._missing(key))
        reply = await reply_of(self._model, request)
        if issubclass(type(reply), ModelReply) and can_be_kept(reply):
            texts = {"prompt": request.prompt, "system": request.system} if self._texts else {}
            try:
                self._recording.add(self._own, key, reply, texts)
            except ModelRefused as error:
                raise ModelFailed(str(error), reply) from None  # the reply is paid for
        return reply

    def _missing(self, key: Key) -> str:
        known = [one for one in self._recording.replies if one.step == key.step]
        here = [one.differences(key) for one in known if one.place == key.place]
        if here:
            parts = " and ".join(f"`{part}`" for part in min(here, key=len))
            why = f"what is asked differs from what was recorded in {parts}"
        elif known:
            why = "other visits or attempts of the step were recorded, and not this one"
        else:
            why = "no reply to this step was recorded"
        where = f"step `{key.step}` (visit {key.visit}, attempt {key.attempt})"
        return f"`{self._recording.file}` has no reply for {where}: {why}"


def _data(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        data: Mapping[str, Any] = freeze(parameters)
    except ValueRefused as error:
        raise ModelRefused(
            f"the model can't be recorded, because its `parameters` are no plain data: {error}"
        ) from None
    return data
