"""JSON Schemas of programs and policies, made from the models, for editors and other tools.

A schema only describes the shape: a document that it refuses is no program, but the checker may refuse others, too.
"""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ID: Final = "urn:stepward:schema:{kind}:1"
_MODELS: Final[dict[str, type[Program] | type[Policy]]] = {"program": Program, "policy": Policy}

_DESCRIPTIONS: Final = {
    "name": "what findings, policies and waivers call it",
    "inputs": "the values that a run starts with, and their types; what is not listed does not exist",
    "tools": "the manifest: the tools that steps may call, and their properties",
    "programs": "the programs that `call` steps perform, by name: each is written here, or read from a `file`",
    "file": "the path of the file that has the program, relative to this one",
    "guardrails": "rules over all runs, proved by the checker and enforced by the machine",
    "steps": "the steps, in order; a run starts at the first",
    "max_steps": "how many steps and repeated attempts a run may take",
    "max_stalled_steps": "how many consecutive steps may change no value",
    "max_tokens": "how many tokens a run may use",
    "max_cost": "how much the models of a run may cost, in the currency of the model's adapter",
    "timeout_seconds": "the time after which an attempt has failed; of a program, that after which a run ends",
    "id": "the name of the step: no spaces, dots, quotes or `$`",
    "prompt": "the question to the model; `$name` is replaced by a value",
    "system": "the instructions for the model; `$name` is replaced by a value",
    "allowed_outputs": "the accepted replies, compared exactly after stripping; any other reply fails the step",
    "returns": "the type of the output",
    "cache": "whether a reply is kept and used again by later runs, if the machine has a cache",
    "model": "the name of the model that is asked; whoever runs the program says which model that is",
    "temperature": "how much the replies of the model vary, as the model takes it",
    "max_output_tokens": "the most tokens of one reply",
    "tool": "a name in the manifest",
    "program": "the name of the program: of a call, that which is called; of a waiver, that which it is for",
    "args": "the arguments by name; `$name` is replaced by a value",
    "condition": 'an expression such as `$amount <= 500 and $decision == "yes"`',
    "then": "the step that follows when the condition holds",
    "otherwise": "the step that follows if the condition, or every case, does not hold",
    "cases": "the first case that holds is taken",
    "exclusive": "of a condition: no two cases may hold at once; of a guardrail: a run performs at most one of the two",
    "parallel_steps": "llm and tool steps that run at the same time",
    "branches": "bodies of steps that run at the same time, by name",
    "items": "the list: its items, one after the other; of a type: the type of each item",
    "as": "the variable that is the item in the body",
    "index_as": "the variable that is the number of the item, from 0",
    "max_items": "the most items",
    "do": "the body, if it is a single llm or tool step",
    "carry": "variables that the items carry on, each with its first value; a text is an expression",
    "on_item_error": "whether a failed item fails the step, or is skipped",
    "depends_on": "sub-steps or branches of the same step that have to succeed before this one starts",
    "max_concurrency": "how many of them run at once",
    "lisp": "an expression of PTC-Lisp that reads the arguments as `data/NAME`",
    "set": "assignments to names and paths, all at once; a text is an expression, one in a list or object a template",
    "output_key": "the variable that is bound to the output",
    "next_step": "the step that follows",
    "is_terminal": "whether the run ends after this step",
    "outcome": "whether a run that ends here is a success or a failure",
    "output": "what the run returns",
    "on_error": "what happens when the step fails",
    "max_retries": "the total number of attempts",
    "error_step": "the step that follows a failure",
    "catch": "the steps that follow failures, by the names of their errors; the first entry that takes one wins",
    "retry": "how often a call is tried after which errors, and the delays before its attempts",
    "errors": "names of errors",
    "max_attempts": "the total number of attempts of a visit",
    "delay_seconds": "the seconds before the second attempt",
    "backoff": "by what the delay is multiplied for each further attempt",
    "max_delay_seconds": "the longest delay before an attempt",
    "seconds": "how long it waits: a number of seconds, or a reference to one",
    "until": "until when it waits: a time of RFC 3339, or a text with references that becomes one",
    "deadline_seconds": "the time after which a tool that suspends the run has no answer any more",
    "on_timeout": "whether the step fails or goes on with `fallback` when every attempt timed out",
    "fallback": "the output when every attempt timed out",
    "max_visits": "how often a run may start this step",
    "effect": "the effect of the tool; `write` if absent",
    "idempotent": "whether two calls with the same idempotency key have the effect of one",
    "suspends": "whether the run may wait here for an answer from outside",
    "echoes": "whether the output may repeat the arguments; `true` if absent",
    "policy": "the name of the policy",
    "applies_to": "patterns for names of programs or paths of their files; all programs if absent",
    "allow": "the tools that may be called at all",
    "requires_deadline": "whether each call that may suspend a run has to say `deadline_seconds`",
    "waivers": "exceptions from rules for a program, with a reason and a last day",
    "sensitive": "whether the value must stay out of prompts, traces and journals",
}

_SELECTORS: Final = frozenset({"Catch", "Sequence", "ToolSelector", "StepSelector", "EffectSelector", "BranchSelector"})
"""Models whose `then`, `tool` and `effect` name or select steps, so that the descriptions above do not fit."""


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a `program` or a `policy`."""
    schema = _tidied(_MODELS[kind].model_json_schema(by_alias=True))
    definitions = schema.pop("$defs", {})
    for described in (schema, *(definitions[name] for name in definitions if name not in _SELECTORS)):
        for name, field in described["properties"].items():
            if name in _DESCRIPTIONS:
                field["description"] = _DESCRIPTIONS[name]
    if "ConditionStep" in definitions:
        definitions["ConditionStep"] |= {
            "if": {"required": ["cases"]},
            "then": {"properties": {"condition": False}},
            "else": {"required": ["condition"]},
        }
    if kind == "policy":
        # A tool without conditions is written as its name alone.
        allow = schema["properties"]["allow"]
        allow["items"] = {"if": {"type": "string"}, "then": {"minLength": 1}, "else": allow["items"]}
    return {
        "$schema": DIALECT,
        "$id": _ID.format(kind=kind),
        "title": f"Stepward {kind}",
        **_told_apart(schema, definitions),
        "$defs": {name: _told_apart(entry, definitions) for name, entry in definitions.items()},
    }


# -- unions ------------------------------------------------------------------------------------------------------------
#
# Of a document that none of the schemas of a `oneOf` accepts, an editor marks the whole. So a union says first which of
# its schemas a document is meant for, by its `type` or by a key that only one of them requires; then this one alone
# speaks, and an editor marks the field.


def _told_apart(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema in which each `oneOf` is a row of `if`, `then` and `else`."""
    if isinstance(schema, list):
        return [_told_apart(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: _told_apart(value, definitions) for key, value in schema.items() if key != "oneOf"}
    match schema.get("oneOf"):
        case None:
            return told
        case [{"type": "boolean"}, dict() as other]:
            return {**told, "if": {"type": "boolean"}, "else": other}
        case choices:
            models = {choice["$ref"]: definitions[choice["$ref"].rpartition("/")[2]] for choice in choices}
            is_typed = all("type" in model["properties"] for model in models.values())
            return {**told, **(_by_type(models) if is_typed else _by_key(models))}


def _by_type(models: dict[str, Any]) -> dict[str, Any]:
    """Return the union of models that their `type` tells apart."""
    kinds = {ref: model["properties"]["type"]["const"] for ref, model in models.items()}
    rest = {
        "properties": dict.fromkeys(sorted({name for model in models.values() for name in model["properties"]}), True)
    }
    cases = {ref: {"properties": {"type": {"const": kind}}, "required": ["type"]} for ref, kind in kinds.items()}
    head = {"required": ["type"], "properties": {"type": {"enum": list(kinds.values())}}}
    return {**head, **_cases(cases, {**rest, "additionalProperties": False})}


def _by_key(models: dict[str, Any]) -> dict[str, Any]:
    """Return the union of models that a key tells apart: one that no other has, or else any that it requires."""
    needed = {ref: set(model["required"]) for ref, model in models.items()}
    shared = sorted(set.intersection(*needed.values()))
    names = {ref: set(model["properties"]) for ref, model in models.items()}
    own = {ref: keys.difference(*(names[other] for other in names if other != ref)) for ref, keys in names.items()}
    order = sorted(models, key=lambda ref: not own[ref])
    cases = {ref: _has_any(own[ref] or needed[ref]) for ref in order}
    rest = {"properties": dict.fromkeys(shared, True), "additionalProperties": False, "minProperties": len(shared) + 1}
    return _cases(cases, rest)


def _has_any(keys: set[str]) -> dict[str, Any]:
    choices = [{"required": [key]} for key in sorted(keys)]
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _cases(cases: dict[str, dict[str, Any]], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Return a row of conditions with the model for each; `otherwise` is for a document that none of them fits."""
    row = otherwise
    for ref, condition in reversed(cases.items()):
        row = {"if": condition, "then": {"$ref": ref}, "else": row}
    return row


# -- tidying -----------------------------------------------------------------------------------------------------------


def _tidied(schema: Any) -> Any:
    """Return a schema without generated titles, and without null where a field can be left out."""
    if isinstance(schema, list):
        return [_tidied(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {key: _part(key, value) for key, value in schema.items() if not _is_noise(key, value)}
    if "description" in tidied:
        tidied["description"] = " ".join(str(tidied["description"]).split())
    if "gt" in tidied:  # what pydantic writes for a bound on a type of ours
        tidied["exclusiveMinimum"] = tidied.pop("gt")
    return _without_null(tidied)


def _part(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):  # the keys are names of fields and models, not keywords
        return {name: _tidied(entry) for name, entry in value.items()}
    return _tidied(value)


def _is_noise(key: str, value: Any) -> bool:
    return key == "discriminator" or (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = schema.get("anyOf")
    if choices is None or {"type": "null"} not in choices:
        return schema
    left = [choice for choice in choices if choice != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
