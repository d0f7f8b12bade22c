"""Several models behind one adapter: a step says by a name which of them it wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stepward.vm.machine.equipment import require_model
from stepward.vm.machine.models import Model, ModelFailed, ModelReply, ModelRequest, parameters_of, reply_of
from stepward.vm.models.refusals import ModelRefused


class NamedModels:
    """Maps the names that steps give in their field `model`: `NamedModels(usual, small=one, large=another)`.

    A step without a name asks `usual`. Names that are no words of Python come as a mapping: `**{"small-1": one}`.
    Raises ModelRefused for a model that is itself a NamedModels.
    """

    def __init__(self, usual: Model | None = None, /, **named: Model) -> None:
        if usual is not None:
            require_model(usual, "usual")
        for name, model in named.items():
            require_model(model, name)
            if isinstance(model, NamedModels):
                raise ModelRefused(f"the model for the name `{name}` must be one model, without names of its own")
        self._usual = usual
        self._named: Mapping[str, Model] = dict(named)

    @property
    def names(self) -> Collection[str]:
        """The names that steps may give."""
        return self._named.keys()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What decides a reply besides the request: the parameters of each model, by its name."""
        usual = None if self._usual is None else parameters_of(self._usual)
        return {"usual": usual, "named": {name: parameters_of(model) for name, model in self._named.items()}}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the model that the step wants; raises ModelFailed if there is none."""
        model = self._usual if request.model is None else self._named.get(request.model)
        if model is None:
            name = "no name" if request.model is None else f"the name `{request.model}`"
            raise ModelFailed(f"there is no model for a step with {name}")
        return await reply_of(model, request._replace(model=None))
