"""The programs whose diagrams are kept as files beside this one, and one that has every part a diagram can show."""

from __future__ import annotations

import re
from typing import Final

from paths import DATA, ROOT

KEPT: Final = DATA / "diagrams"

EVERYTHING: Final = """\
name: everything <&> "quoted"
inputs: {amount: {type: number}}
tools:
  look: {effect: read}
  pay: {effect: write, idempotent: false, suspends: true}
  note: {effect: write, idempotent: true}
guardrails:
  - {name: looked-before-paying, protects: {tool: pay}, requires: {any_of: [{step: load}, {step: big, branch: then}]}}
  - {name: once, at_most_once: {tool: pay}}
  - {name: noted, followed_by: {first: {tool: pay}, then: {tool: note}}}
  - {name: small, never: {tool: pay}, when: $amount > 9}
  - {name: either, exclusive: [{tool: pay}, {step: done}]}
steps:
  - {id: load, type: tool, tool: look, output_key: found, on_error: skip, max_visits: 3, error_step: null}
  - {id: ask, type: llm, prompt: x, output_key: reply, allowed_outputs: [yes, no], error_step: failed}
  - {id: big, type: condition, condition: '$amount > 5 and $reply == "yes"', then: both, otherwise: which}
  - {id: which, type: condition,
     cases: [{name: one, when: $amount == 1, then: compute}, {when: $amount == 2, then: load}]}
  - {id: compute, type: set, set: {total: $amount + 1}, next_step: wait}
  - {id: wait, type: llm, prompt: x, timeout_seconds: 3, on_timeout: fallback, fallback: none, max_visits: 2,
     error_step: failed, next_step: load}
  - id: both
    type: parallel
    parallel_steps:
      - {id: left, type: tool, tool: pay}
      - {id: right, type: tool, tool: unheard_of, on_error: skip}
      - {id: third, type: tool, tool: look, timeout_seconds: 3, on_timeout: fallback, fallback: none}
    next_step: nowhere
  - {id: orphan, type: tool, tool: note, is_terminal: true, outcome: failure}
  - {id: done, type: end}
  - {id: failed, type: llm, prompt: x, on_error: retry, max_retries: 4, is_terminal: true, outcome: failure}
"""

GOLDEN: Final = {
    "customer_refund": ROOT / "specs/programs/good/customer_refund.yaml",
    "post_checkout": ROOT / "specs/programs/good/post_checkout.yaml",
    "gold_bonus": ROOT / "specs/programs/bad/SW401/gold-bonus.yaml",
    "expense_approval": ROOT / "specs/programs/bad/SW103/subtle.yaml",
    "marketplace_payout": ROOT / "specs/programs/good/marketplace_payout.yaml",
    "rented_machine": ROOT / "specs/programs/bad/SW405/visits-used-up.yaml",
}
"""Plain, with a parallel step, with a path, with what no run reaches, with calls, and with a path around a loop."""


def node(source: str, name: str) -> str:
    """Return the line of a node in DOT text."""
    (line,) = [line for line in source.splitlines() if re.match(rf"\s*{name} \[", line)]
    return line


def edge(source: str, start: str, end: str) -> str:
    """Return the line of an edge in DOT text; for one with a label the line to the label, and that of the label."""
    (line,) = edge_lines(source, start, end)
    return line


def edge_lines(source: str, start: str, end: str) -> list[str]:
    """Return the lines of all edges from one node to another, in the form of `edge`."""
    lines = [line for line in source.splitlines() if re.match(rf"\s*{start} -> {end}( |$)", line)]
    for name in re.findall(rf"^\s*(e\d+) -> {end}(?: |$)", source, re.MULTILINE):
        lines += [
            f"{line} {node(source, name)}"
            for line in source.splitlines()
            if re.match(rf"\s*{start} -> {name}( |$)", line)
        ]
    return lines
