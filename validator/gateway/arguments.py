"""The arguments of the tools that a caller may call: their types, their bounds, and their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepward.validator.gateway.faults import first_fault
from stepward.validator.gateway.judging import MAX_CHARACTERS
from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.planner.brief import MAX_TASK

MAX_TURN: Final = 50_000
"""Characters of the longest turn."""

MAX_INPUTS: Final = 200
"""Inputs of one run."""

Text = Annotated[
    str,
    Field(min_length=1, max_length=MAX_CHARACTERS, description="The whole text of one program, in YAML or JSON."),
]
SavedName = Annotated[str, Field(min_length=1, max_length=64, description="The name of a saved program.")]
RunId = Annotated[str, Field(min_length=1, max_length=200, description="The id of a run, as `run_program` returns it.")]
Inputs = Annotated[dict[str, Any], Field(max_length=MAX_INPUTS, description="The inputs of the run, by name.")]
Request = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="A name for this request, of your choice. Sent again, it shows its run and starts no other.",
    ),
]
Task = Annotated[
    str, Field(min_length=1, max_length=MAX_TASK, description="What the program has to do, in a few sentences.")
]
InputTypes = Annotated[
    dict[str, Any],
    Field(
        max_length=MAX_INPUTS,
        description='The inputs that the program may read, each with its type, such as `{"sum": {"type": "number"}}`.',
    ),
]
Turn = Annotated[str, Field(min_length=1, max_length=MAX_TURN, description="One turn: forms of PTC-Lisp.")]
SessionName = Annotated[
    str,
    Field(min_length=1, max_length=64, description="The session, as `run_lisp` returns it. Without it, one starts."),
]
Signature = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4_000,
        description="The type of what `(return x)` may give in a new session: `{:total :float}`.",
    ),
]
Data = Annotated[
    dict[str, Any],
    Field(max_length=MAX_INPUTS, description="The values that a new session reads as `data/NAME`, by name."),
]
Code = Annotated[str, Field(min_length=1, max_length=60, description="A code such as SW401, or the name of a rule.")]


class Arguments(BaseModel):
    """The arguments of a tool; an argument that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class NoArguments(Arguments):
    """No arguments."""


class ProgramArguments(Arguments):
    """A program."""

    program: Text


class RuleArguments(Arguments):
    """A rule, or nothing for the language."""

    code: Code | None = None


class SaveArguments(Arguments):
    """A program, and the name to save it under."""

    name: SavedName
    program: Text


class StartArguments(Arguments):
    """A program, as text or by its saved name, its inputs, and a name for the request; or the run that it continues."""

    program: Text | None = None
    name: SavedName | None = None
    inputs: Inputs = Field(default_factory=dict)
    request: Request | None = None
    continues: RunId | None = None


class TurnArguments(Arguments):
    """A turn of a session, or a session alone; the data and the signature of a new one."""

    program: Turn | None = None
    session: SessionName | None = None
    signature: Signature | None = None
    data: Data = Field(default_factory=dict)


class PlanArguments(Arguments):
    """A task, the inputs that its program may read, a name for the request, and the run that is to be continued."""

    task: Task
    inputs: InputTypes | None = None
    request: Request | None = None
    continues: RunId | None = None


class RunArguments(Arguments):
    """A run."""

    run: RunId


A = TypeVar("A", bound=Arguments)


def parsed(kind: type[A], arguments: Mapping[str, Any] | None) -> A:
    """Return the arguments that somebody has sent. Raises RequestRefused with the field and the rule, not the value."""
    try:
        return kind.model_validate(dict(arguments or {}))
    except ValidationError as error:
        where, rule = first_fault(error, kind)
        names = ", ".join(f"`{name}`" for name in kind.model_fields)
        message = f"argument `{where}`: {rule}" if where else f"the arguments are wrong: {rule}"
        raise RequestRefused(message, f"this tool takes {names}" if names else "this tool takes no arguments") from None


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, without what a reader does not need."""
    schema = kind.model_json_schema()
    properties = {name: _plain(one) for name, one in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, without titles, and without null for one that may be absent."""
    kinds = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    merged = {**schema, **kinds[0]} if kinds else schema
    return {key: value for key, value in merged.items() if key not in ("anyOf", "title", "default")}
