"""The callers of a gateway: who they are, by a token each, and what each of them may do."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepward.validator.files import why_not
from stepward.validator.gateway.faults import first_fault
from stepward.validator.result import AdvisedError
from stepward.vm.errors import ProgramError
from stepward.vm.language.manifest import Effect
from stepward.vm.language.policy import Policy
from stepward.vm.language.similar import near_name
from stepward.vm.reading.files import read_file

MIN_TOKEN: Final = 16
"""Characters of the shortest token."""


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
Count = Annotated[int, Field(gt=0, le=1_000_000_000)]


class Caller(BaseModel):
    """A caller, with its limits. What is left out of the file is not allowed, or the smallest sensible number.

    `steps` bounds one run. `runs_per_hour`, `tokens_per_hour` and `money_per_hour` bound all runs that the caller
    started in the last hour. `settles_own` lets a person with the name of the caller settle calls of its runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    name: Name
    token: Annotated[str, Field(min_length=MIN_TOKEN, max_length=500, exclude=True, repr=False)]
    tools: Annotated[tuple[str, ...], Field(strict=False)] = ()
    effects: Annotated[tuple[Effect, ...], Field(strict=False)] = ("none", "read")
    runs_per_hour: Count = 60
    steps: Count = 1_000
    tokens_per_hour: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    money_per_hour: Annotated[Decimal, Field(ge=0, strict=False)] = Decimal(0)
    settles_own: bool = False

    def policy(self, facts: Mapping[str, Any]) -> Policy:
        """Return the policy of the caller: the tools that it may call, with the facts of the operator's manifest."""
        allowed = [
            tool
            for tool in dict.fromkeys(self.tools)
            if tool in facts and facts[tool].get("effect", "write") in self.effects
        ]
        known = {tool: facts[tool] for tool in allowed}
        return Policy.from_dict({"policy": f"caller-{self.name}", "tools": known, "allow": allowed})


def local() -> Caller:
    """Return the caller of a server without a file of callers. It may call no tools, and nobody knows its token."""
    return Caller(name="local", token=secrets.token_hex(32))


_HELP: Final = f"a caller has {', '.join(f'`{name}`' for name in Caller.model_fields)}"


def _advised(error: ValidationError) -> tuple[str, str]:
    """Return what is wrong with a caller, and what to do.

    A field that is not known is named if it can be no token; one that is meant, in any case.
    """
    where, rule = first_fault(error, Caller)
    fault = error.errors(include_input=False)[0]
    if fault["type"] != "extra_forbidden":
        return f"`{where}`: {rule}" if where else rule, _HELP
    unknown = str(fault["loc"][-1])
    near = near_name(unknown, list(Caller.model_fields))
    help = f"did you mean `{near}`? {_HELP}" if near else _HELP
    return f"`{unknown}` is no field of a caller" if len(unknown) < MIN_TOKEN else rule, help


class Callers:
    """The callers of a gateway. Their tokens are kept as digests."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._by_digest = [(sha256(caller.token.encode()).digest(), caller) for caller in callers]
        self.by_name = {caller.name: caller for caller in callers}

    def of_token(self, token: str) -> Caller | None:
        """Return the caller with a token, or None. It takes the same time for every wrong token."""
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = [caller for known, caller in self._by_digest if hmac.compare_digest(known, digest)]
        return found[0] if found else None

    def require_tools(self, tools: Collection[str]) -> None:
        """Raise AdvisedError for a caller that may call what is none of the tools."""
        for caller in self.by_name.values():
            for tool in caller.tools:
                if tool not in tools:
                    near = near_name(tool, sorted(tools))
                    help = f"did you mean `{near}`?" if near else "correct its name, or leave it out"
                    raise AdvisedError(f"caller `{caller.name}` may call `{tool}`, and there is no such tool", help)

    @classmethod
    def load(cls, path: FilePath) -> Callers:
        """Return the callers in a YAML or JSON file; raises AdvisedError. No message has a token."""
        try:
            documents = read_file(path)
        except OSError as error:
            raise AdvisedError(
                f"the callers' file `{path}` can't be read: {why_not(error)}", "correct the path"
            ) from None
        except ProgramError:
            # The messages of the reader may quote the text, which has tokens.
            raise AdvisedError(f"the callers' file `{path}` can't be read as YAML or JSON", _HELP) from None
        data = documents[0].data if len(documents) == 1 and not documents[0].problems else None
        if not isinstance(data, Mapping) or set(data) != {"callers"} or not isinstance(data["callers"], list):
            raise AdvisedError(f"the callers' file `{path}` is no mapping with one list, `callers`", _HELP)
        return cls.of(data["callers"], str(path))

    @classmethod
    def of(cls, entries: Sequence[Any], name: str = "callers") -> Callers:
        """Return the callers that plain data describes; `name` stands for it in messages. Raises AdvisedError."""
        callers = []
        for number, entry in enumerate(entries, 1):
            try:
                callers.append(Caller.model_validate(entry))
            except ValidationError as error:
                why, help = _advised(error)
                raise AdvisedError(f"caller {number} in `{name}`: {why}", help) from None
        for what, values in (("name", [one.name for one in callers]), ("token", [one.token for one in callers])):
            if len(set(values)) < len(values):
                raise AdvisedError(f"two callers in `{name}` have one {what}", f"give each a {what} of its own")
        return cls(callers)
