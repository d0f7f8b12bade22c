"""The programs of runs that are killed, with inputs; a helper, no tests stand here."""

from functools import cache
from typing import Any

from paths import GOOD
from stepward.vm import Program

EVERY = """
name: every_kind_of_step
language: 1
inputs:
  amount: {type: integer}
tools:
  look: {effect: read, idempotent: true, args: {what: {type: string}}, returns: {type: integer}}
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}}
  ship: {effect: write, idempotent: false, args: {item: {type: integer}}, returns: {type: string}}
guardrails:
  - {name: one-payment, at_most_once: {tool: pay}}
  - {name: only-what-fits, protects: {tool: pay}, requires: {step: fits, branch: then}}
steps:
  - {id: begin, type: set, set: {n: 0}}
  - {id: stock, type: tool, tool: look, args: {what: stock}, output_key: left}
  - {id: think, type: llm, prompt: "Pay $amount?", allowed_outputs: ["yes", "no"], output_key: decision}
  - {id: fits, type: condition, condition: '$decision == "yes" and $amount <= $left', then: pay, otherwise: refuse}
  - {id: pay, type: tool, tool: pay, args: {amount: $amount}, output_key: paid, next_step: tell}
  - {id: tell, type: tool, tool: mail, args: {text: "paid: $paid.receipt"}, on_error: retry}
  - id: both
    type: parallel
    max_concurrency: 2
    parallel_steps:
      - {id: box, type: tool, tool: ship, args: {item: 100}}
      - {id: bag, type: tool, tool: ship, args: {item: 200}}
      - {id: note, type: tool, tool: mail, args: {text: both}}
    next_step: count
  - {id: count, type: set, set: {n: "$n + 1"}, next_step: each}
  - {id: each, type: tool, tool: ship, args: {item: $n}}
  - {id: more, type: condition, condition: "$n < 2", then: count, otherwise: done}
  - {id: refuse, type: tool, tool: mail, args: {text: refused}, outcome: failure}
  - {id: done, type: end, output: {receipt: $paid.receipt, items: $n}}
"""

LINES = """
name: every_line
language: 2
inputs:
  lines: {type: array, maxItems: 4, items: {type: integer}}
tools:
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}, errors: [Busy]}
  ship: {effect: write, idempotent: false, args: {item: {type: number}}, returns: {type: string}}
steps:
  - id: each
    type: for_each
    items: $lines
    as: line
    carry: {sum: 0}
    guardrails: [{name: paid-once, at_most_once: {tool: pay}}]
    output_key: receipts
    steps:
      - {id: pay, type: tool, tool: pay, args: {amount: $line}}
      - {id: add, type: set, set: {sum: $sum + $line}}
      - id: tell
        type: tool
        tool: mail
        args: {text: "busy at first: $line"}
        retry: [{errors: [Busy], max_attempts: 3, delay_seconds: 0.05}]
      - id: parts
        type: for_each
        items: [1, 2]
        as: part
        max_items: 2
        steps:
          - {id: code, type: set, set: {code: $line * 10 + $part}}
          - {id: send, type: tool, tool: ship, args: {item: $code}}
      - {id: paid, type: end, output: $pay.output.receipt}
  - {id: done, type: end, output: {receipts: $receipts, sum: $sum}}
"""
"""A body within a body, with writes that happen once, and a call that is tried again after a delay."""

CALLS = """
name: two_payments
language: 2
inputs:
  first: {type: integer}
  second: {type: integer}
tools:
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}, errors: [Busy]}
  ship: {effect: write, idempotent: false, args: {item: {type: number}}, returns: {type: string}}
programs:
  payment:
    inputs: {amount: {type: integer}}
    guardrails: [{name: paid-once, at_most_once: {tool: pay}}]
    programs:
      parcel:
        inputs: {number: {type: integer}}
        steps:
          - {id: send, type: tool, tool: ship, args: {item: $number}}
          - id: tell
            type: tool
            tool: mail
            args: {text: "busy at first: $number"}
            retry: [{errors: [Busy], max_attempts: 3, delay_seconds: 0.05}]
          - {id: told, type: end, output: $tell.output}
    steps:
      - {id: pay, type: tool, tool: pay, args: {amount: $amount}}
      - {id: code, type: set, set: {code: $amount * 10}}
      - {id: sent, type: call, program: parcel, args: {number: $code}, returns: {type: string}}
      - {id: paid, type: end, output: {receipt: $pay.output.receipt, sent: $sent.output}}
steps:
  - {id: one, type: call, program: payment, args: {amount: $first}, output_key: before}
  - {id: two, type: call, program: payment, args: {amount: $second}}
  - {id: done, type: end, output: [$before, $two.output]}
"""
"""A program that is called twice, and calls another: writes that happen once in each call."""

TOGETHER = """
name: all_together
language: 2
inputs:
  lines: {type: array, maxItems: 4, items: {type: integer}}
tools:
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}, errors: [Busy]}
  ship: {effect: write, idempotent: false, args: {item: {type: integer}}, returns: {type: string}}
steps:
  - id: each
    type: for_each
    items: $lines
    as: line
    max_concurrency: 3
    output_key: receipts
    steps:
      - {id: pay, type: tool, tool: pay, args: {amount: $line}}
      - id: tell
        type: tool
        tool: mail
        args: {text: "busy at first: $line"}
        retry: [{errors: [Busy], max_attempts: 3, delay_seconds: 0.05}]
      - {id: paid, type: end, output: $pay.output.receipt}
  - id: both
    type: parallel
    branches:
      box:
        steps:
          - {id: pack, type: tool, tool: ship, args: {item: 101}}
          - id: label
            type: tool
            tool: mail
            args: {text: "busy at first: box"}
            retry: [{errors: [Busy], max_attempts: 3, delay_seconds: 0.05}]
      bag:
        steps:
          - {id: fill, type: tool, tool: ship, args: {item: 202}}
          - {id: close, type: tool, tool: mail, args: {text: bag}}
      card:
        depends_on: [bag]
        steps:
          - {id: write, type: tool, tool: mail, args: {text: card}}
          - {id: post, type: tool, tool: ship, args: {item: 3}}
  - {id: done, type: end, output: {receipts: $receipts}}
"""
"""Items that run at once, then branches that do: writes that happen once, and calls that are tried again."""

APPROVAL = {"approved": True, "approver": "kim"}
REFUND = {"order_id": "ORD-000001", "request": "it broke", "amount": 700, "customer_email": "a@example.com"}


@cache
def program_of(name: str) -> tuple[Program, dict[str, Any]]:
    """Return a program of the tests, with inputs."""
    if name == "every":
        return Program.from_yaml(EVERY), {"amount": 40}
    if name == "lines":
        return Program.from_yaml(LINES), {"lines": [3, 5, 8]}
    if name == "calls":
        return Program.from_yaml(CALLS), {"first": 3, "second": 5}
    if name == "together":
        return Program.from_yaml(TOGETHER), {"lines": [3, 5, 8]}
    return Program.load(GOOD / "customer_refund.yaml"), dict(REFUND)
