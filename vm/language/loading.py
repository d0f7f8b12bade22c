"""Builds a program or policy from plain data, and turns pydantic's errors into problems in the user's words."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from stepward.vm.errors import DocumentError, Problem, ProgramError
from stepward.vm.language import guardrails
from stepward.vm.language.editions import Written, misplaced_past, missing_language
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.node import is_quoted_number
from stepward.vm.language.nulls import ENTRIES, TYPE_MAPS, names_of, without_nulls
from stepward.vm.language.other_words import (
    in_place_of,
    is_a_known_word,
    renamed,
    step_type_for,
    surely_renamed,
    without_counterpart,
)
from stepward.vm.language.record import Record, fields_of
from stepward.vm.language.similar import alike, only_near, respelt
from stepward.vm.language.step_paths import is_sub_step, step_path
from stepward.vm.language.steps import STEP_MODELS, SUB_STEP_MODELS, Branch
from stepward.vm.language.types import TypeSpec
from stepward.vm.patterns.matching import RE2
from stepward.vm.reading.limits import MAX_DEPTH, MAX_STEPS, MAX_VALUES
from stepward.vm.reading.source import Correction, Path, Place

if TYPE_CHECKING:
    from stepward.vm.language.program import Program
    from stepward.vm.reading.document import Document

Model = TypeVar("Model", bound=BaseModel)
Part = type[BaseModel] | type[Record]

# The fields after which pydantic inserts the tag of a union into the path.
_TAGGED_LISTS: Final = frozenset({"steps", "parallel_steps", "guardrails", "exclusive", "all_of", "any_of"})
_TAGGED_FIELDS: Final = frozenset({"protects", "requires", "never", "at_most_once", "first", "then", "branch"})
_ELSEWHERE: Final = {
    "depends_on": (
        "`depends_on` belongs to the sub-steps of a parallel step",
        "order the steps in the list, or name the successor with `next_step`",
    )
}


def build_program(data: Any, document: Document | None, patterns: str | None = RE2) -> Program:
    """Return the program that data describes; raises ProgramError with every problem of its shape.

    `patterns` is their dialect, as a journal names it.
    """
    from stepward.vm.language.called_files import with_files
    from stepward.vm.language.program import Program
    from stepward.vm.language.refused_calls import refused_calls

    name = document.name if document else "<dict>"
    if document is None:
        data = _with_plain_steps(data)
        _require_sane_data(data)
    data = with_files(data, name, document.file if document else None)
    program = build(Program, data, name, document.problems if document else (), ProgramError, patterns)
    problem = refused_calls(program.programs, program.steps, data)
    if problem is not None:
        raise ProgramError(name, (problem,))
    total = sum(1 + len(step.sub_steps) for step in program.layout.steps if step.type != "stage")
    if total > MAX_STEPS:
        message = f"the program has {total:,} steps; {MAX_STEPS:,} are the limit"
        raise ProgramError(name, (Problem("SW004", message, "split the program", Place(("steps",), key=True)),))
    program._document = document
    parts = (program.inputs or {}, program.tools or {}, program.guardrails, program.layout)
    written = Written(*parts, program.timeout_seconds)
    refused = misplaced_past(written)
    if refused is None and program.language == 1:
        refused = missing_language(written, says_1="language" in program.model_fields_set)
    if refused is not None:
        raise ProgramError(name, (refused,))
    return program


def _with_plain_steps(data: Any) -> Any:
    """Return the data of a program, with steps that are records turned back into plain fields."""
    steps = data.get("steps") if isinstance(data, dict) else None
    if not isinstance(steps, list | tuple) or not any(isinstance(step, Record) for step in steps):
        return data
    return {**data, "steps": [step.to_data() if isinstance(step, Record) else step for step in steps]}


def _require_sane_data(data: Any) -> None:
    """Raise ProgramError for data that the readers would refuse in text: too deep, too large, or with surrogates."""
    pending, seen = [(data, 0)], 0
    while pending:
        value, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise _refused("SW004", f"nested deeper than {MAX_DEPTH} levels", "flatten the data")
        if seen > MAX_VALUES:
            raise _refused("SW004", f"the data holds more than {MAX_VALUES:,} values", "split the program")
        if isinstance(value, dict):
            pending.extend((part, depth + 1) for entry in value.items() for part in entry)
        elif isinstance(value, list | tuple):
            pending.extend((item, depth + 1) for item in value)
        elif isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _refused("SW001", "half of a surrogate pair is not a text", "write the whole character") from None


def _refused(code: str, message: str, help: str) -> ProgramError:
    return ProgramError("<dict>", (Problem(code, message, help),))


def build(
    model: type[Model],
    data: Any,
    name: str,
    problems: tuple[Problem, ...],
    error_class: type[DocumentError],
    patterns: str | None = RE2,
) -> Model:
    """Return the object that data describes; raises `error_class` with the reader's problems and the model's.

    `patterns` is their dialect, as a journal names it.
    """
    kind = getattr(model, "kind", "document")
    if not isinstance(data, dict):
        message = f"a {kind} is a mapping of fields, not {_value_words(data)}"
        raise error_class(name, (*problems, Problem("SW002", message, f"start with the fields of a {kind}")))
    try:
        built = _validate(model, data, {"patterns": patterns})
    except ValidationError as error:
        raise error_class(name, (*problems, *_problems(error, model, without_nulls(data, model)))) from None
    except RecursionError:
        problem = Problem("SW004", "the document is nested too deeply", "flatten it")
        raise error_class(name, (*problems, problem)) from None
    if problems:
        raise error_class(name, problems)
    return built


def _validate(model: type[Model], data: dict[str, Any], context: dict[str, Any]) -> Model:
    """Validate data; if it is refused, once more without known fields that are null: few documents have any."""
    try:
        return model.model_validate(data, context=context)
    except ValidationError:
        cleaned = without_nulls(data, model)
        if cleaned == data:
            raise
        return model.model_validate(cleaned, context=context)


def _problems(error: ValidationError, model: type[BaseModel], data: Any) -> tuple[Problem, ...]:
    found: dict[tuple[Path, bool], Problem] = {}
    complaints = error.errors(include_url=False)
    unknown = {_data_path(complaint["loc"]) for complaint in complaints if complaint["type"] == "extra_forbidden"}
    for complaint in complaints:
        if complaint["type"] == "too_short" and complaint["input"]:
            continue  # the list has entries, but none of them is valid: each has an error of its own
        problem = _problem(complaint, model, data)
        if complaint["type"] != "missing" or not _is_misspelt(_data_path(complaint["loc"]), unknown):
            found.setdefault((problem.place.path, problem.place.key), problem)
    return tuple(found.values())


def _is_misspelt(missing: Path, unknown: set[Path]) -> bool:
    """Return whether an unknown field is a misspelling of a missing one: then only the unknown one is reported."""
    beside = [str(path[-1]) for path in unknown if path[:-1] == missing[:-1]]
    is_renamed = any(renamed(word, missing[-1:], ()) for word in beside)  # type: ignore[arg-type]
    return is_renamed or bool(alike(str(missing[-1]), beside, n=1, cutoff=0.6))


def _problem(complaint: Any, model: type[BaseModel], data: Any) -> Problem:
    """Return a complaint of pydantic's in our words; one of a called program is that of a program, at its place."""
    location = complaint["loc"]
    if location[:1] == ("programs",) and len(location) > 2 and isinstance(_at(data, location[:2]), dict):
        from stepward.vm.language.programs import CalledProgram
        from stepward.vm.language.refused_calls import moved

        inner = _problem({**complaint, "loc": location[2:]}, CalledProgram, _at(data, location[:2]))
        return moved(inner, location[:2])
    path = _data_path(location)
    while path and isinstance(path[-1], int) and not isinstance(_at(data, path[:-1]), list):
        path = path[:-1]
    kind, context = complaint["type"], complaint.get("ctx") or {}
    step = _step_of(path, data)
    field = f"`{path[-1]}`" if path and isinstance(path[-1], str) else _item_words(path)
    if kind == "too_long" or (kind == "missing" and isinstance(complaint["loc"][-1], int)):
        return _pair_problem(path, data)
    if kind == "missing":
        owner = _owner_words(path[:-1], data)
        return Problem("SW002", f"{field} is missing in {owner}", _missing_help(path), Place(path[:-1]), step=step)
    if kind == "extra_forbidden":
        message, help = _unknown_field(path, model, data)
        place = Place(path, key=True)
        near = _misspelt_field(path, model, data)
        return Problem("SW002", message, help, place, step=step, correction=Correction(place, near) if near else None)
    if kind.startswith("union_tag"):
        message, help = _untagged(path, data)
        owner, near = _at(data, path), _misspelt_type(path, data)
        has_type = path[0] == "steps" and isinstance(owner, dict) and "type" in owner
        place = Place((*path, "type")) if has_type else Place(path)
        return Problem("SW002", message, help, place, step=step, correction=Correction(place, near) if near else None)
    if kind in ("value_refused", "number_refused"):
        reason = context["reason"]
        code = "SW004" if "deeper" in reason or "digits" in reason else "SW002"
        return Problem(code, f"{field}: {reason}", "write a value that JSON has", Place(path), step=step)
    message, help = _wrong_value(kind, context, field, complaint)
    is_near = kind == "literal_error" and isinstance(complaint["input"], str)
    correction = respelt(Place(path), complaint["input"], _expected(context)) if is_near else None
    return Problem("SW002", message, help, Place(path), step=step, correction=correction)


def _pair_problem(path: Path, data: Any) -> Problem:
    """Return the problem of an `exclusive` rule that does not have two entries."""
    while isinstance(path[-1], int):
        path = path[:-1]
    count = len(_at(data, path))
    help = "write one rule for each pair of them"
    if count < 2:
        help = "name both things of which a run does only one: `exclusive: [{tool: pay}, {step: refuse}]`"
    return Problem("SW002", f"`{path[-1]}` takes two selectors, not {count}", help, Place(path))


def _expected(context: dict[str, Any]) -> list[str]:
    """Return the values that a field can have, from the context of pydantic's error."""
    return [part.strip("'") for part in context["expected"].replace(" or ", ", ").split(", ")]


def _data_path(location: tuple[str | int, ...]) -> Path:
    """Return the path in the data: pydantic's location without the tags of unions."""
    path: list[str | int] = []
    skip = False
    for part in location:
        if skip:
            skip = False
            continue
        if part == "[key]":
            break
        path.append(part)
        skip = _is_tagged(path)
    return tuple(path)


def _is_tagged(path: list[str | int]) -> bool:
    last, before = path[-1], path[-2] if len(path) > 1 else None
    if isinstance(last, int):
        return before in _TAGGED_LISTS
    if "guardrails" in path:
        return last in _TAGGED_FIELDS and len(path) > path.index("guardrails") + 2
    if last == "do":
        return path[0] == "steps"
    return last == "additionalProperties" and before not in TYPE_MAPS


def _at(data: Any, path: Path) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _step_of(path: Path, data: Any) -> str | None:
    step = _at(data, step_path(path)) if step_path(path) else None
    if isinstance(step, dict) and isinstance(step.get("id"), str):
        return str(step["id"])
    return None


def _item_words(path: Path) -> str:
    return f"an entry of `{path[-2]}`" if len(path) > 1 else "the document"


def _owner_words(path: Path, data: Any) -> str:
    owner = _at(data, path)
    if not path:
        return "the document"
    if path[0] == "steps" and isinstance(path[-1], int) and path[-2] in ENTRIES:
        return "this case" if path[-2] == "cases" else f"this entry of `{path[-2]}`"
    if path == step_path(path):
        return f"this {owner.get('type')} step" if isinstance(owner, dict) and owner.get("type") else "this step"
    if path[-2:-1] == ("guardrails",):
        return "this guardrail"
    return f"`{path[-1]}`" if isinstance(path[-1], str) else f"this entry of `{path[-2]}`"


def _missing_help(path: Path) -> str:
    if path == ("steps",):
        return "list the steps of the program under `steps`"
    if path[-1] == "type":
        return f"say which type: {_listed(STEP_MODELS)}"
    return f"add `{path[-1]}`"


def _unknown_field(path: Path, model: type[BaseModel], data: Any) -> tuple[str, str]:
    name = str(path[-1])
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    owner = _model_at(path[:-1], model, data)
    known = sorted(names_of(owner)) if owner else []
    whose = _owner_words(path[:-1], data)
    fields = _at(data, path[:-1])
    instead = in_place_of(name) if owner is TypeSpec else ""
    if instead:
        return f"unknown field `{name}` in {whose}", instead
    same = renamed(name, known, fields)
    near = [same] if same else [] if is_a_known_word(name) else alike(name, known, n=1, cutoff=0.6)
    if near and near[0] not in (fields or {}):
        form = _form(owner, near[0], fields[name]) if owner and fields else ""
        return f"unknown field `{name}` in {whose}", f"did you mean `{near[0]}`?{form}"
    in_rule = _in_guardrails(path)
    above = _model_at(path[:-2], model, data) if len(in_rule) > 3 else None
    if above is not None and name in names_of(above) and name not in _at(data, path[:-2]):
        return f"`{name}` does not belong into `{path[-2]}`", f"write it beside `{path[-2]}`"
    absent = without_counterpart(name, known)
    if absent:
        return f"unknown field `{name}` in {whose}", absent
    others = [word for word, step in STEP_MODELS.items() if name in names_of(step)]
    if path[0] == "steps" and others:
        if is_sub_step(path[:-1]):
            around = "for_each" if path[-2] == "do" else "parallel"
            return f"`{name}` does not belong to a sub-step", f"remove it, or put it on the {around} step"
        return f"`{name}` does not belong to {whose}", f"remove it; it belongs to {_listed(others)}"
    return (
        f"unknown field `{name}` in {whose}",
        f"remove it; the fields here are {_listed(known)}" if known else "remove it",
    )


def _form(owner: Part, field: str, value: Any) -> str:
    """Return a second sentence of a help, if a field does not take the value that was given to it by another name."""
    try:
        TypeAdapter(fields_of(owner)[field] if issubclass(owner, Record) else Any).validate_python(value, strict=True)
    except ValidationError as error:
        complaint = error.errors(include_url=False)[0]
        kind = complaint["type"]
        if complaint["loc"] or (kind == "tuple_type" and isinstance(value, list)):
            return ""  # about a part of the value; and the loader takes lists
        message, help = _wrong_value(kind, complaint.get("ctx") or {}, f"`{field}`", complaint)
        return f" {message}; {help}" if kind == "literal_error" else f" {message}" if kind in _TYPE_WORDS else ""
    return ""


def _misspelt_field(path: Path, model: type[BaseModel], data: Any) -> str | None:
    """Return the one field that an unknown one is a misspelling of, unless that field is given, too."""
    owner = _model_at(path[:-1], model, data)
    if owner is None or str(path[-1]) in _ELSEWHERE:
        return None
    name, known, fields = str(path[-1]), names_of(owner), _at(data, path[:-1]) or {}
    near = surely_renamed(name, known, fields) or (None if is_a_known_word(name) else only_near(name, known))
    return None if near in fields else near


def _misspelt_type(path: Path, data: Any) -> str | None:
    """Return the one step type that an unknown one is a misspelling of, or None."""
    owner = _at(data, path)
    type_name = owner.get("type") if isinstance(owner, dict) and path[0] == "steps" else None
    if not isinstance(type_name, str) or type_name in STEP_MODELS:
        return None
    return only_near(type_name, SUB_STEP_MODELS if is_sub_step(path) else STEP_MODELS)


def _model_at(path: Path, model: type[BaseModel], data: Any) -> Part | None:
    """Return the model of the mapping at `path`."""
    if not path:
        return model
    owner = _at(data, path)
    if path[0] == "steps" and len(path) > 1 and path[-2] in ENTRIES and isinstance(owner, dict):
        return ENTRIES[str(path[-2])]
    if path[-2:-1] == ("branches",) and path[:-2] == step_path(path):
        return Branch
    if path == step_path(path) and isinstance(owner, dict):
        return (SUB_STEP_MODELS if is_sub_step(path) else STEP_MODELS).get(str(owner.get("type")))
    if _in_guardrails(path):
        return guardrails.model_of(_in_guardrails(path), owner)
    if path[0] == "tools" and len(path) == 2:
        return ToolSpec
    if isinstance(path[0], str) and path[0] in ("waivers", "allow"):
        entries: dict[str, type[BaseModel]] = getattr(model, "entry_models", {})
        return entries.get(path[0])
    return TypeSpec


def _in_guardrails(path: Path) -> Path:
    """Return the part of a path from the `guardrails` of a program or a body on; empty without them."""
    rest = path[len(step_path(path)) :]
    rest = rest[2:] if rest[:1] == ("branches",) else rest
    return rest if rest[:1] == ("guardrails",) else ()


def _untagged(path: Path, data: Any) -> tuple[str, str]:
    owner = _at(data, path)
    if path == step_path(path):
        if not isinstance(owner, dict):
            return (
                f"a step is a mapping of fields, not {_value_words(owner)}",
                "write `id`, `type` and the fields of the type",
            )
        kinds = list(SUB_STEP_MODELS if is_sub_step(path) else STEP_MODELS)
        if "type" not in owner:
            return "`type` is missing in this step", f"say which type: {_listed(kinds)}"
        if not isinstance(owner["type"], str):
            return f"`type` must be text, not {_value_words(owner['type'])}", f"use one of {_listed(kinds)}"
        if is_sub_step(path) and owner["type"] in STEP_MODELS:
            what = "run in parallel" if path[-1] != "do" else "can stand under `do`; list others under `steps`"
            return f"a sub-step can't be of type `{owner['type']}`", f"only llm and tool steps {what}"
        similar = step_type_for(owner["type"], kinds) or next(iter(alike(owner["type"], kinds, n=1)), None)
        help = f"did you mean `{similar}`?" if similar else f"use one of {_listed(kinds)}"
        return f"`{owner['type']}` is not a step type", help
    if len(_in_guardrails(path)) == 2:
        return (
            "a guardrail needs a rule",
            "add `protects` with `requires`, `never`, `at_most_once`, `followed_by` or `exclusive`",
        )
    return "a selector names a step, a tool or an effect", "write `{tool: name}`, `{step: id}` or `{effect: write}`"


_TYPE_WORDS: Final = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", "write it without quotes"),
    "bool_type": ("true or false", "write `true` or `false` without quotes"),
    "tuple_type": ("a list", "write a list, also for one entry"),
    "list_type": ("a list", "write a list, also for one entry"),
    "dict_type": ("a mapping", "write `name: value` pairs"),
    "model_type": ("a mapping", "write `name: value` pairs"),
    "model_attributes_type": ("a mapping", "write `name: value` pairs"),
    "number_type": ("a number", "write it without quotes"),
}


_LISTS_OF_ERRORS: Final = {
    "`catch`": "write `catch: [{errors: [any], then: ID}]`, or `error_step: ID`",
    "`retry`": "write `retry: [{errors: [any], max_attempts: 3}]`, or `on_error: retry` and `max_retries: 3`",
    "`errors`": "write a list, also for one name: `errors: [NAME]`",
}


def _wrong_value(kind: str, context: dict[str, Any], field: str, complaint: Any) -> tuple[str, str]:
    value = complaint["input"]
    if kind in _TYPE_WORDS:
        due, help = _TYPE_WORDS[kind]
        if kind == "tuple_type" and isinstance(value, dict) and value:
            help = f"begin each entry with `-`; `{next(iter(value))}` is the `id` of the first"
        if kind == "tuple_type" and field in _LISTS_OF_ERRORS:
            help = _LISTS_OF_ERRORS[field]
        if kind in ("int_type", "number_type") and not is_quoted_number(value, is_whole=kind == "int_type"):
            help = f"write {due}"
        if kind == "string_type" and isinstance(value, bool | int):
            help = f'put it in quotes: `"{str(value).lower()}"`'
        return f"{field} must be {due}, not {_value_words(value)}", help
    if kind == "literal_error":
        expected = _expected(context)
        near = alike(str(value), expected, n=1)
        help = f"did you mean `{near[0]}`?" if near else f"use {_listed(expected, 'or')}"
        return f"{field} can't be `{value}`", help
    if kind == "variable_name":
        return f"`{context['text']}` is not a name", "a name has letters, digits and `_`, and starts with no digit"
    if kind == "string_pattern_mismatch":
        return f"`{value}` is not an id", "an id has no spaces, dots, quotes or `$`"
    if kind in ("greater_than", "greater_than_equal"):
        least = f"at least {context['ge']}" if "ge" in context else f"more than {context['gt']}"
        return f"{field} must be {least}, not {value}", "write a larger number"
    if kind in ("too_short", "string_too_short"):
        return f"{field} is empty", "give it at least one entry" if kind == "too_short" else "give it a text"
    message = str(complaint["msg"])
    return f"{field}: {message[:1].lower()}{message[1:]}", context.get("help", "see specs/language.md")


def _listed(words: Any, last: str = "and") -> str:
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def _value_words(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"the number {value}" if isinstance(value, int | float | Decimal) else "what JSON does not have"
