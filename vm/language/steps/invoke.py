"""The call step: performs another program, which sees its inputs and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import Field
from pydantic_core import PydanticCustomError

from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import fill, lone_reference, parts
from stepward.vm.language.node import EMPTY, ObjectValue
from stepward.vm.language.steps.base import FailingStep, Template, Text
from stepward.vm.language.steps.for_each import ForEachStep
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap


class InvokeStep(ForEachStep):
    """Performs a program of `programs` with arguments, as a body that is performed once.

    In a layout it has the steps of that program, with ids and names that begin with its own id: it is a step with one
    item that nobody names, whose inputs are variables that it assigns when it starts. `declared` are the types of these
    by their names in the program, and `home` is the path of the program in the document. `returns` is the type that
    the output of an `end` step of the program has to have, as far as the caller says it.
    """

    type: Literal["call"]  # type: ignore[assignment]
    program: Annotated[str, Field(min_length=1)]
    args: ObjectValue = EMPTY
    returns: TypeSpec | None = None

    is_once = True
    declared: Mapping[str, TypeSpec] = EMPTY
    home: Path = ()
    names: tuple[str, ...] = ()
    """The names by which policies mean the program: its own, and that under which it is listed."""
    file: str = ""
    tools: Mapping[str, Any] = EMPTY
    """What the program says of its tools, as `ToolSpec`: that type stands on steps."""
    items = (None,)

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field: those of a step that may fail, and its own."""
        own = get_type_hints(InvokeStep, include_extras=True)
        return FailingStep.fields() | {name: own[name] for name in ("type", "program", "args", "returns")}

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        for name, value in fields.get("args", EMPTY).items():
            if isinstance(value, str) and len(pieces := parts(value)) > 1 and any(map(_is_read, pieces)):
                message = "the argument `{name}` is a text with references in it"
                help = "pass what it refers to, and write the text in the called program"
                raise PydanticCustomError("argument_form", message, {"name": name, "help": help})
        if fields.get("returns") is not None and _is_sensitive(fields["returns"]):
            message = "`returns` of a call can't mark a value as sensitive"
            help = "mark it where it comes from: in the called program"
            raise PydanticCustomError("returns_form", message, {"help": help})
        return super(ForEachStep, cls)._of(fields)

    @property
    def item_name(self) -> str:
        """A name that no program has: its one item has none."""
        return f"{self.id} item"

    @property
    def body(self) -> tuple[Any, ...]:
        """The steps of the program in a layout; none in a document."""
        return self.steps or ()

    def inside(self, name: str) -> str:
        """Return the name that a variable of the program has in a layout."""
        return f"{self.id}/{name}"

    def type_of(self, name: str) -> TypeSpec | None:
        """Return the declared type of the input that a variable of a layout is, None for another variable."""
        return self.declared.get(name[len(self.id) + 1 :]) if name.startswith(f"{self.id}/") else None

    @property
    def carry(self) -> FrozenMap:
        """The inputs with their arguments, or their defaults, as a `set` step would assign them."""
        defaults = {name: _constant(spec.default) for name, spec in self.declared.items() if spec.has_default}
        assigned = {name: _assigned(value) for name, value in self.args.items()}
        return FrozenMap((self.inside(name), value) for name, value in sorted({**defaults, **assigned}.items()))

    @property
    def expressions(self) -> Iterable[Text]:
        """The texts that its inputs become; other values are constants, or templates."""
        for name, value in self.carry.items():
            if isinstance(value, str):
                yield Text(("args", name[len(self.id) + 1 :]), value, is_condition=False, name=name)

    @property
    def templates(self) -> Iterable[Template]:
        """None: the inputs are assigned."""
        return ()


def _is_sensitive(spec: TypeSpec) -> bool:
    inner = [*(spec.properties or {}).values(), spec.items, spec.additional_properties]
    return spec.sensitive or any(_is_sensitive(one) for one in inner if isinstance(one, TypeSpec))


def _is_read(piece: str | Reference) -> bool:
    return isinstance(piece, Reference)


def _assigned(value: Any) -> Any:
    """Return the value of a `set` that assigns what an argument says: a text there is an expression."""
    if not isinstance(value, str) or lone_reference(value) is not None:
        return value
    return _constant(fill(value, _no_reference))


def _constant(value: Any) -> Any:
    """Return the value of a `set` that assigns a value as it is."""
    if not isinstance(value, str):
        return _literal(value)
    plain = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{plain}'"


def _literal(value: Any) -> Any:
    """Return a value in whose lists and objects each text is a template that stands for that text."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, Mapping):
        return FrozenMap((name, _literal(item)) for name, item in value.items())
    return tuple(map(_literal, value)) if isinstance(value, tuple) else value


def _no_reference(names: tuple[str, ...]) -> Any:
    raise AssertionError(f"a text without references refers to `{names}`")
