"""Fields that people write out of habit from other languages, and what this language has in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

WORDS_FOR: Final = {
    # every step
    "id": "name step step_id step_name key label",
    "type": "kind step_type",
    "next_step": "goto next next_step_id next_id then to target transition on_success success_step continue_to",
    "is_terminal": "terminal final is_final is_end end ends last",
    "error_step": "on_failure failure_step on_error_step error_handler except fallback_step error_next rescue",
    "max_retries": "max_attempts attempts max_tries tries",
    "timeout_seconds": "timeout timeout_s timeout_sec timeout_secs seconds deadline",
    "max_visits": "max_iterations max_loops iterations loop_limit max_loop max_rounds repeat max_runs",
    "output_key": "output output_var output_variable output_name save_as store_as store_in save_to result result_key "
    "result_var assign_to as var variable register bind outputs output_to",
    "fallback": "default default_value fallback_value on_timeout_value",
    # errors by name
    "catch": "catches catchers handlers on_errors",
    "retry": "retry_policy retry_policies retriers",
    "errors": "error error_equals exceptions names on",
    "max_attempts": "tries attempts max_tries count retries max_retries",
    "delay_seconds": "delay interval interval_seconds wait_seconds",
    "backoff": "backoff_rate multiplier factor backoff_multiplier",
    "max_delay_seconds": "max_delay max_interval cap",
    # llm
    "prompt": "prompt_template message messages user_prompt user text template input question query instruction task",
    "system": "system_prompt system_message instructions role persona",
    "allowed_outputs": "choices options enum allowed allowed_values valid_outputs values labels outcomes classes",
    "returns": "schema output_schema response_schema response_format output_type json_schema return_type response "
    "output outputs return result",
    "cache": "cached cacheable use_cache caching memoize memoise",
    # tool
    "tool": "tool_name function action call uses func function_name tool_id operation handler",
    "args": "params parameters arguments input inputs with kwargs arg tool_args tool_input input_schema properties",
    # condition
    "condition": "if when expression expr test predicate check on",
    "cases": "branches switch case conditions routes choices options rules",
    "then": "goto on_true if_true true true_step then_step yes next next_step to target step",
    "otherwise": "else default else_step on_false if_false false false_step no otherwise_step default_step",
    "when": "if condition expression expr test",
    "exclusive": "mutually_exclusive",
    # parallel
    "parallel_steps": "steps tasks children substeps sub_steps parallel",
    "max_concurrency": "concurrency max_parallel parallelism max_workers workers",
    "branches": "arms lanes flows",
    "depends_on": "needs after dependencies run_after requires",
    # for_each
    "items": "in over list collection each items_path foreach for_each",
    "as": "item item_name item_var element alias loop_variable iterator",
    "index_as": "index index_name index_var counter",
    "max_items": "limit max_length max_count",
    "carry": "accumulator accumulate reduce initial",
    "on_item_error": "item_error on_each_error",
    # call
    "program": "workflow subworkflow sub_workflow child process machine file",
    # set
    "set": "values vars variables assign assignments let value update data",
    # end
    "outcome": "status result state",
    "output": "return returns value outputs reason message output_key",
    # wait
    "seconds": "duration delay delay_seconds wait_seconds timeout sleep",
    "until": "timestamp date time datetime wait_until at when due",
    # the program and its tools
    "name": "title workflow_name program id workflow",
    "steps": "nodes tasks states stages workflow flow body",
    "inputs": "input params parameters args arguments variables",
    "tools": "functions actions",
    "guardrails": "rules constraints invariants policies guards",
    "max_steps": "step_limit max_iterations budget",
    "max_tokens": "token_limit token_budget",
    "max_cost": "cost_limit max_budget budget_usd max_budget_usd max_cost_usd max_spend max_money cost_budget",
    "effect": "effects side_effect side_effects kind",
    "suspends": "waits suspend async human",
    # types
    "enum": "choices options values allowed allowed_values",
    "minimum": "min gte ge",
    "maximum": "max lte le",
    "exclusiveMinimum": "exclusive_minimum gt more_than greater_than",
    "exclusiveMaximum": "exclusive_maximum lt less_than",
    "minLength": "min_length min_len",
    "maxLength": "max_length max_len",
    "minItems": "min_items",
    "maxItems": "max_items",
    "const": "constant",
    "pattern": "regex regexp",
    "sensitive": "secret pii private confidential",
}
"""What people and models write for each field, from other languages. A word that is written for several fields stands
for the first of them that can be there."""

_SAME: Final = frozenset({"else", "if", "goto", "params", "parameters", "arguments", "prompt_template"})
"""The words that surely mean the field: `--fix` corrects these. Of the others some have a value of another form."""

_CONDITIONS: Final = ("if", "when", "unless", "condition")
_ABSENT: Final = (
    (
        ("model", "temperature", "provider"),
        "",
        "remove it; the machine gets its model: `stepward run --model` or `ExecutionVM(model=...)`",
    ),
    (
        ("while", "until", "loop", "foreach", "for_each"),
        "",
        "remove it; a loop is a branch that names an earlier step, with `max_visits` on one of its steps",
    ),
    (("start", "start_at", "entry", "entry_point"), "", "remove it; a run starts at the first step of the list"),
    (
        ("description", "comment", "notes", "name", "title", "label"),
        "",
        "remove it, or write a comment: `# ...`",
    ),
    (("retry_delay", "backoff"), "max_retries", "remove it; the machine gets it: `ExecutionVM(retry_delay=...)`"),
    (
        ("retries", "retry", "retry_count", "num_retries"),
        "max_retries",
        "write `on_error: retry` and `max_retries`, which is the total number of attempts",
    ),
    (_CONDITIONS, "next_step", "remove it; put a condition step before this step"),
    (
        _CONDITIONS,
        "requires",
        "remove it; let a branch that needs nothing more count, too: "
        "`requires: {any_of: [{step: CONDITION, branch: otherwise}, ...]}`",
    ),
    (_CONDITIONS, "followed_by", "remove it; select the step that runs under this condition: `first: {step: ID}`"),
    (_CONDITIONS, "at_most_once", "remove it; select the step that runs under this condition: `{step: ID}`"),
    (("unless",), "never", "remove it; write the opposite: `when: not (...)`"),
    (_CONDITIONS, "exclusive", "remove it; select the steps that run under this condition: `{step: ID}`"),
)
"""Words without a field of the same meaning, a field that the mapping must be able to have, and what to do."""

_STEP_TYPES: Final = {
    "llm": "agent model prompt ai gpt chat completion generate classify",
    "tool": "action function call task api http script python code",
    "condition": "decision switch branch if choice router gateway conditional case route",
    "parallel": "fork concurrent all gather branches",
    "for_each": "map foreach loop each iterate iterator",
    "call": "subworkflow sub_workflow subflow workflow invoke child",
    "set": "assign variable let variables pass",
    "compute": "calculate calculation transform lisp expression formula",
    "wait": "sleep delay pause timer wait_until",
    "end": "stop finish terminal exit return final done success fail failure",
}
"""What people and models write for each type of step."""

_TEXTS: Final = "remove it; limit the text by `enum` or `pattern`"
_MISSING: Final = {
    "uniqueItems": "remove it; let the tool refuse an item that occurs twice",
    "format": _TEXTS,
    "multipleOf": "remove it; declare `integer`, or let the tool refuse other numbers",
    "anyOf": "remove it; a type can list several: `type: [string, integer]`",
    "oneOf": "remove it; a type can list several: `type: [string, integer]`",
    "$ref": "remove it; write the type out here",
    "nullable": 'remove it; add "null" to the list of types',
}
"""Keywords of JSON Schema that a type does not have."""


def renamed(name: str, known: Collection[str], present: Collection[str]) -> str | None:
    """Return the field that an unknown one stands for, if it is among those `known` and not yet `present`."""
    return next((field for field in _fields_for(name) if field in known and field not in present), None)


def surely_renamed(name: str, known: Collection[str], present: Collection[str]) -> str | None:
    """Return the field that an unknown one surely stands for, so that a fix may write it."""
    return renamed(name, known, present) if name in _SAME else None


def is_a_known_word(name: str) -> bool:
    """Return whether a word is one of other languages: it is no misspelling of a field with similar letters."""
    return any(_plain(name) in words for words, _, _ in _ABSENT) or any(_fields_for(name))


def without_counterpart(name: str, known: Collection[str]) -> str:
    """Return what to do about a word that no field has the meaning of, among the `known` fields, or an empty text."""
    rows = ((needed, help) for words, needed, help in _ABSENT if _plain(name) in words)
    return next((help for needed, help in rows if not needed or needed in known), "")


def _fields_for(name: str) -> Iterator[str]:
    return (field for field, words in WORDS_FOR.items() if _plain(name) in words.split())


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()


def step_type_for(word: str, known: Collection[str]) -> str | None:
    """Return the type of step among those `known` that another word stands for."""
    return next((kind for kind, words in _STEP_TYPES.items() if kind in known and word.lower() in words.split()), None)


def in_place_of(name: str) -> str:
    """Return what to write in a type in place of a keyword of JSON Schema, or an empty text."""
    return _MISSING.get(name, "")


def are_opposed(one: str, other: str) -> bool:
    """Return whether two names differ in `min` and `max`: neither is a misspelling of the other."""
    a, b = one.lower(), other.lower()
    return all((word in a) != (word in b) for word in ("min", "max"))
