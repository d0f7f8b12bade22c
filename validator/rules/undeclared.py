"""SW213: what follows where a program declares no tools at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.validator.rules.effects import EffectInLoop, FallbackForEffect, RetriedEffect, unknown_sites
from stepward.validator.rules.text_flow import UnguardedTextToEffect

_Risk = RetriedEffect | EffectInLoop | FallbackForEffect | UnguardedTextToEffect

_RISKS: Final[tuple[tuple[type[_Risk], str], ...]] = (
    (RetriedEffect, "a retry performs {} again"),
    (EffectInLoop, "a loop performs {} again"),
    (FallbackForEffect, "the run goes on although {} may have happened"),
    (UnguardedTextToEffect, "no condition reads the free text that reaches {}"),
)
_SHOWN: Final = 3


class NoManifest(Rule):
    """A program without `tools` uses its tools in a manner that is safe only for reads or idempotent tools.

    ## What it does
    Reports a program without a `tools` section once, and lists the consequences for the tools that no policy declares
    either. Each of these tools is assumed to write and not to be idempotent. So a retry or a loop may repeat a write,
    and after `on_error: skip` or `on_timeout: fallback` nobody knows whether the write happened. If the only
    consequence is that free text reaches a tool, the finding is a warning. If there is no consequence, there is no
    finding.

    ## Why it is bad
    The check can't distinguish a payment from a look-up. It has to assume that both write, or it would miss the
    payment.

    ## Example
    ```yaml
    name: charge
    inputs: {order: {type: integer}}
    steps:
      - {id: load, type: tool, tool: load_order, args: {order: $order}, on_error: retry}
      - {id: charge, type: tool, tool: charge_card, args: {order: $order}, on_error: retry}
    ```

    ## Use instead
    ```yaml
    name: charge
    inputs: {order: {type: integer}}
    tools: {load_order: {effect: read}, charge_card: {effect: write, idempotent: true}}
    steps:
      - {id: load, type: tool, tool: load_order, args: {order: $order}, on_error: retry}
      - {id: charge, type: tool, tool: charge_card, args: {order: $order}, on_error: retry}
    ```
    """

    code = "SW213"
    name = "no-manifest"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding that says what follows from tools of which nothing is declared."""
        sites = unknown_sites(context)
        risks = [(list(risk().at(context, sites)), words) for risk, words in _RISKS] if sites else []
        risky = [finding for findings, _ in risks for finding in findings]
        if not risky:
            return
        tools = {site.call.id: site.call.tool for site in sites if site.call.type == "tool"}
        follows = [
            words.format(_listed(tools[one.step or ""] for one in findings)) for findings, words in risks if findings
        ]
        example = tools[risky[0].step or ""]
        message = f"no tool is declared, so each is assumed to write and not to be idempotent: {'; '.join(follows)}"
        help = f"declare under `tools` what each tool does, such as `{example}: {{effect: write, idempotent: false}}`"
        related = [Label(one.place, "this follows here, too") for one in risky[1:_SHOWN]]
        finding = self.finding(message, help, risky[0].place, step=risky[0].step, related=related)
        is_error = any(one.severity is Severity.ERROR for one in risky)
        yield finding if is_error else replace(finding, severity=Severity.WARNING)


def _listed(tools: Iterable[str]) -> str:
    names = [f"`{tool}`" for tool in dict.fromkeys(tools)]
    if len(names) > _SHOWN:
        names = [*names[:_SHOWN], f"{len(names) - _SHOWN} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
