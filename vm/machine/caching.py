"""Replies from a cache, for one machine: when one is looked for, what is kept, and what is reported.

A cache changes what a run costs, and never whether it can go on: whatever is wrong with it, the model is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from stepward.vm.journal.canonical import is_sealed
from stepward.vm.language.steps import LlmCall
from stepward.vm.language.types import is_sensitive
from stepward.vm.machine.ask import accepted_value, error_text
from stepward.vm.machine.events import Call, Event, Result, Spent
from stepward.vm.machine.known import Known
from stepward.vm.machine.models import Model, parameters_of
from stepward.vm.machine.plan import CallPlan
from stepward.vm.models.cache import CachedReply, ReplyCache, read_entry, reply_key, write_entry
from stepward.vm.values import freeze

log = logging.getLogger("stepward.cache")

NAMELESS: Final = (
    "no reply is cached, because the model does not say what it is: give its adapter an attribute `parameters`, "
    "a mapping with all that decides a reply besides the request"
)


class Replies:
    """The replies that a machine may take from a cache. `io` calls a method of the cache, directly or in a thread."""

    def __init__(self, cache: ReplyCache, model: Model, io: Callable[..., Awaitable[Any]]) -> None:
        self._cache = cache
        self._model = model
        self._io = io
        self._reported: set[str] = set()

    def key(self, plan: CallPlan, call: Call, known: Known) -> str | None:
        """Return the key of the reply to a call, or None if it is neither looked for nor kept.

        Only the first visit of a step uses the cache: in a loop, the same reply again would lead nowhere.
        """
        model_call = plan.call
        if not isinstance(model_call, LlmCall) or not model_call.cache or call.visit > 1:
            return None
        if plan.returns is not None and is_sensitive(plan.returns):
            return None
        if known.are_in(call.prompt) or (call.system is not None and known.are_in(call.system)):
            return None
        parameters = self._parameters()
        if parameters is None:
            return None
        schema = None if model_call.returns is None else freeze(model_call.returns.to_data())
        settings = {name: getattr(model_call, name) for name in ("model", "temperature", "max_output_tokens")}
        model_settings = {name: value for name, value in settings.items() if value is not None}
        return reply_key(parameters, call.prompt, call.system, plan.allowed, schema, freeze(model_settings))

    def _parameters(self) -> Any:
        """Return what the model says of itself, frozen, or None if it says nothing that can be read."""
        try:
            if isinstance(getattr(self._model, "parameters", None), Mapping):
                return freeze(parameters_of(self._model))
        except Exception as error:  # it is the adapter's code
            self._report(f"no reply is cached, because the model's `parameters` can't be read: {error_text(error)}")
            return None
        self._report(NAMELESS)
        return None

    async def find(self, key: str, plan: CallPlan, max_bytes: int) -> Result | None:
        """Return the kept reply as the result of a call that costs nothing, or None if the model has to be asked.

        It is judged as any reply is: one that the step does not accept is passed over.
        """
        try:
            entry = await self._io(self._cache.get, key)
            if entry is None:
                return None
            cached = read_entry(key, entry)
        except Exception as error:  # a cache of the user's own may raise anything
            self._report(f"a reply was not taken from the cache, and the model asked: {error_text(error)}")
            return None
        result = accepted_value(plan, cached.value, max_bytes)
        if result.answer != "output":
            self._report(f"the cache has a reply to `{plan.id}` that the step does not accept: the model was asked")
            return None
        return result._replace(spent=Spent(model=cached.model), is_cached=True)

    async def keep(self, key: str, event: Event, result: Result) -> None:
        """Keep the reply of a call that succeeded, unless it repeats a sensitive value."""
        body = event.body
        if body["kind"] != "success" or is_sealed(body["output"]):
            return
        try:
            await self._io(self._cache.put, key, write_entry(key, CachedReply(body["output"], result.spent.model)))
        except Exception as error:  # as in `find`
            self._report(f"a reply was not kept in the cache: {error_text(error)}")

    def _report(self, message: str) -> None:
        """Report something once for a machine."""
        if message not in self._reported:
            self._reported.add(message)
            log.warning(message)
