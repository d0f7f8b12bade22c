"""The manifest: what a program or a policy declares about a tool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import Node
from stepward.vm.language.steps.catching import RESERVED, ErrorName
from stepward.vm.language.types import TypeSpec

Effect = Literal["none", "read", "write"]


def _free(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name in RESERVED:
            why, help = f"`{name}` is a name of the machine's own", "give the error of the tool another name"
            raise PydanticCustomError("error_names", why, {"help": help})
        if names.count(name) > 1:
            raise PydanticCustomError("error_names", f"it names `{name}` twice", {"help": "name each error once"})
    return names


class ToolSpec(Node):
    """The facts about one tool. The defaults assume the worst: it writes, and it is not idempotent.

    `echoes` says whether its output may repeat its arguments. `errors` are the names of those that it may raise.
    """

    effect: Effect = "write"
    idempotent: bool = False
    args: dict[str, TypeSpec] | None = None
    returns: TypeSpec | None = None
    suspends: bool = False
    echoes: bool = True
    errors: Annotated[tuple[ErrorName, ...], Field(strict=False), AfterValidator(_free)] | None = None

    @property
    def writes_once(self) -> bool:
        """Whether the tool writes and must not be performed twice."""
        return self.effect == "write" and not self.idempotent


# Constructed, not validated: building a validator on import would slow down every start.
UNKNOWN_TOOL = ToolSpec.model_construct()
"""The facts that are assumed of a tool that nobody declares."""
