"""SW603: does each call that may suspend a run say how long it waits, where a policy asks for that."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, PolicyTag
from stepward.validator.rules.base import Rule
from stepward.vm.language.steps import ToolCall
from stepward.vm.reading.source import Place


class MissingDeadline(Rule):
    """A call may suspend the run for ever, and a policy with `requires_deadline: true` asks for a deadline.

    ## What it does
    Reports each call of a tool that suspends without `deadline_seconds`, under each policy that says
    `requires_deadline: true`. A call of a tool that is not declared is not reported here; SW206 and SW213 report it.

    ## Why it is bad
    Nobody may answer. The run then waits for ever, and nobody hears of it.

    ## Example
    ```yaml
    name: leave_request
    language: 2
    tools: {ask_manager: {effect: none, suspends: true}}
    steps:
      - {id: ask, type: tool, tool: ask_manager}
    ```

    With this policy, the call is a finding:

    ```yaml policy
    policy: answers-in-time
    requires_deadline: true
    ```

    ## Use instead
    ```yaml
    name: leave_request
    language: 2
    tools: {ask_manager: {effect: none, suspends: true}}
    steps:
      - {id: ask, type: tool, tool: ask_manager, deadline_seconds: 259200, error_step: late, is_terminal: true}
      - {id: late, type: end, outcome: failure}
    ```
    """

    code = "SW603"
    name = "missing-deadline"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the calls without a deadline, for each policy that asks for one."""
        asking = [policy for policy in context.facts.meaning.policies if policy.requires_deadline]
        for site in context.facts.meaning.calls if asking else ():
            call = site.call
            if not isinstance(call, ToolCall) or call.deadline_seconds is not None:
                continue
            if call.tool not in context.facts.meaning.manifest or not context.facts.meaning.tool(call.tool).suspends:
                continue
            for policy in asking:
                message = f"`{call.id}` may wait for ever: policy `{policy.policy}` asks for a deadline"
                help = "add `deadline_seconds`, and say with `catch` or `error_step` what follows a passed deadline"
                tag = PolicyTag(policy.policy, "requires_deadline")
                yield self.finding(message, help, Place((*site.path, "tool")), step=call.id, policy=tag)
