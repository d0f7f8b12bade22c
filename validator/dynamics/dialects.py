"""The three dialects of spans of language models, as tables: which attributes say what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Dialect(NamedTuple):
    """The names that one dialect has.

    `kind` is the attribute that tells what a span is; a span without it belongs to another dialect. `operations` are
    the values of spans that are steps of a run; all other values are of spans around them. `tools` are those of calls
    of tools. `tokens` and `cost` are attributes whose values are added; where `total` is there, it stands for `tokens`.
    """

    name: str
    kind: str
    operations: frozenset[str]
    tools: frozenset[str]
    program: tuple[str, ...]
    tool: str
    arguments: str
    tokens: tuple[str, ...]
    total: str
    cost: str
    rejected: frozenset[str] = frozenset()
    """The values of spans whose error is a rejection by a guardrail."""


OPENINFERENCE: Final = Dialect(
    name="openinference",
    kind="openinference.span.kind",
    operations=frozenset({"LLM", "TOOL", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "EVALUATOR"}),
    tools=frozenset({"TOOL"}),
    program=("agent.name",),
    tool="tool.name",
    arguments="input.value",
    tokens=("llm.token_count.prompt", "llm.token_count.completion"),
    total="llm.token_count.total",
    cost="llm.cost.total",
    rejected=frozenset({"GUARDRAIL"}),
)

TRACELOOP: Final = Dialect(
    name="traceloop",
    kind="traceloop.span.kind",
    operations=frozenset({"task", "tool"}),
    tools=frozenset({"tool"}),
    program=("traceloop.workflow.name", "traceloop.entity.name"),
    tool="traceloop.entity.name",
    arguments="traceloop.entity.input",
    tokens=(),
    total="",
    cost="",
)

TRACELOOP_MODELS: Final = Dialect(
    name="traceloop",
    kind="llm.request.type",
    operations=frozenset({"chat", "completion", "embedding", "rerank"}),
    tools=frozenset(),
    program=("traceloop.workflow.name",),
    tool="",
    arguments="",
    tokens=("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
    total="llm.usage.total_tokens",
    cost="",
)
"""The calls of models in the second dialect: their kind is in an attribute of its own."""

GEN_AI: Final = Dialect(
    name="gen_ai",
    kind="gen_ai.operation.name",
    operations=frozenset({"chat", "text_completion", "generate_content", "embeddings", "retrieval", "execute_tool"}),
    tools=frozenset({"execute_tool"}),
    program=("gen_ai.workflow.name", "gen_ai.agent.name"),
    tool="gen_ai.tool.name",
    arguments="gen_ai.tool.call.arguments",
    tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    total="stepward.tokens",
    cost="stepward.cost",
)

DIALECTS: Final = (OPENINFERENCE, TRACELOOP, TRACELOOP_MODELS, GEN_AI)
"""In this order: instrumentation of the first two adds attributes of the last one to its spans."""


def dialect_of(attributes: Mapping[str, object]) -> Dialect | None:
    """Return the dialect of a span with these attributes, or None."""
    return next((one for one in DIALECTS if one.kind in attributes), None)
