"""The one table of names in spans and metrics: those of the GenAI conventions, and our own beside them.

The conventions are in development and have no release. They have a repository of their own now,
open-telemetry/semantic-conventions-genai, and the names in the package `opentelemetry-semantic-conventions` are marked
as deprecated. So the names are here, as they were at one commit of that repository. Whoever changes a name also changes
VERSION, which every span carries with its scope.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
"""The version of this table."""

CONVENTIONS: Final = "semantic-conventions-genai@004902b8cb70"
"""The commit of the conventions that this version follows."""

SCOPE: Final = "stepward"
"""The name of the instrumentation scope."""

# -- of the conventions ------------------------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
INVOKE_WORKFLOW: Final = "invoke_workflow"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

WORKFLOW: Final = "gen_ai.workflow.name"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
FUNCTION: Final = "function"
TOOL_CALL: Final = "gen_ai.tool.call.id"
ERROR: Final = "error.type"

# Only with `values`.
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

# Metrics, in seconds.
WORKFLOW_DURATION: Final = "gen_ai.workflow.duration"
CHAT_DURATION: Final = "gen_ai.client.operation.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"

WORKFLOW_BUCKETS: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
CALL_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

# -- our own -----------------------------------------------------------------------------------------------------------

RUN: Final = "stepward.run.id"
PART: Final = "stepward.run.part"
"""A run that waits has several parts, from 1."""

STATUS: Final = "stepward.run.status"
REASON: Final = "stepward.run.reason"
PROGRAM: Final = "stepward.program.digest"
RECORD: Final = "stepward.record"
"""The number of the record that ends the span."""

STEP: Final = "stepward.step.id"
STEP_TYPE: Final = "stepward.step.type"
VISIT: Final = "stepward.step.visit"
ITEM: Final = "stepward.step.item"
OUTCOME: Final = "stepward.outcome"
BRANCH: Final = "stepward.step.branch"
ATTEMPT: Final = "stepward.call.attempt"
PERFORMANCE: Final = "stepward.call.performance"
RULE: Final = "stepward.rule"
IN_DOUBT: Final = "stepward.in_doubt"
VERDICT: Final = "stepward.verdict"
WAITED: Final = "stepward.waited"
"""Seconds between a suspension or a doubt and what settled it."""

DELIVERY: Final = "stepward.delivery"
TOKENS: Final = "stepward.tokens"
"""All tokens of calls: the journal does not tell those of the prompt from those of the reply."""

COST: Final = "stepward.cost"

# Only with `values`.
INPUTS: Final = "stepward.inputs"
OUTPUT: Final = "stepward.output"
REQUEST: Final = "stepward.request"
VALUES: Final = "stepward.values"
WHY: Final = "stepward.why"
BY: Final = "stepward.by"

# Names of spans.
STEP_SPAN: Final = "step"
RESUME_SPAN: Final = "resume"
RECONCILE_SPAN: Final = "reconcile"
POINTS: Final = {
    "governed": "policies added",
    "moved": "new version",
    "cancel": "cancel requested",
    "refused": "delivery refused",
    "erased": "values erased",
}

# Metrics.
RUNS_METRIC: Final = "stepward.runs"
TOKENS_METRIC: Final = "stepward.tokens"
COST_METRIC: Final = "stepward.cost"
FINDINGS_METRIC: Final = "stepward.findings"
FINDING_CODE: Final = "stepward.finding.code"
FINDING_SEVERITY: Final = "stepward.finding.severity"
