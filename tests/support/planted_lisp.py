"""Lisp programs with a planted fault, each beside a good twin; helpers only, no tests stand here."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "amount_of": {"effect": "read", "args": {"id": {"type": "string"}}, "returns": {"type": "number"}},
    "list_orders": {"effect": "read", "returns": {"type": "array", "items": {"type": "object"}}},
    "approve": {"effect": "read", "returns": {"type": "string", "enum": ["yes", "no"]}},
    "pay": {"effect": "write", "idempotent": True, "args": {"amount": {"type": "number"}, "to": {"type": "string"}}},
    "cancel": {"effect": "write", "idempotent": True},
    "tell": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}},
    "drop_table": {"effect": "write", "idempotent": True},
}
ALLOWED: Final = [name for name in TOOLS if name != "drop_table"]


class Kind(NamedTuple):
    """A kind of fault: the code of its finding, the rules of the policy, a body with the fault, and one without.

    Bodies read `amount`.
    """

    code: str
    rules: dict[str, Any]
    bad: str
    good: str


PAY: Final = '(tool/pay {:amount amount :to "ada"})'

TOLD: Final = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "tell"}}, "ends": "success"}

KINDS: Final[dict[str, Kind]] = {
    "a tool outside the list": Kind(
        "SW403", {"allow": ALLOWED}, f"(if (> amount 5) {PAY} (tool/drop_table {{}}))", f"(if (> amount 5) {PAY} nil)"
    ),
    "arguments that the list forbids": Kind(
        "SW403",
        {"allow": [*(name for name in ALLOWED if name != "pay"), {"tool": "pay", "when": "$args.amount <= 50"}]},
        f"(when (< amount 60) {PAY})",
        f"(when (< amount 50) {PAY})",
    ),
    "an approval that one branch lacks": Kind(
        "SW401",
        {"guardrails": [{"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}]},
        f'(if (> amount 100) (when (= (tool/approve) "yes") {PAY}) {PAY})',
        f'(if (> amount 100) (when (= (tool/approve) "yes") {PAY}) (when (= "yes" (tool/approve)) {PAY}))',
    ),
    "an approval that comes too late": Kind(
        "SW401",
        {"guardrails": [{"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}]},
        f"(let [paid {PAY} answer (tool/approve)] answer)",
        f"(let [answer (tool/approve) paid {PAY}] answer)",
    ),
    "an amount over the limit": Kind(
        "SW403",
        {"guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "$args.amount > 500"}]},
        f"(cond (>= amount 501) nil (> amount 0) {PAY})",
        f"(cond (> amount 500) nil (> amount 0) {PAY})",
    ),
    "an amount that is computed over the limit": Kind(
        "SW403",
        {"guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "$args.amount > 500"}]},
        '(let [all (sum-by :total (tool/list_orders))] (when (< amount 500) (tool/pay {:amount all :to "ada"})))',
        '(let [all (sum-by :total (tool/list_orders))] (when (< all 500) (tool/pay {:amount all :to "ada"})))',
    ),
    "a payment that happens twice": Kind(
        "SW404",
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "pay"}}]},
        f"(do (when (> amount 5) {PAY}) (when (> amount 9) {PAY}))",
        f"(if (> amount 9) {PAY} (when (> amount 5) {PAY}))",
    ),
    "a function that pays and is called twice": Kind(
        "SW404",
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "pay"}}]},
        "(do (settle amount) (when (> amount 9) (settle 9)))",
        "(if (> amount 9) (settle amount) (settle 9))",
    ),
    "a payment for each item": Kind(
        "SW404",
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "pay"}}]},
        f"(doseq [order (take 3 (tool/list_orders))] {PAY})",
        f'(do (doseq [order (take 3 (tool/list_orders))] (tool/tell {{:text "an order"}})) {PAY})',
    ),
    "an amount over the limit in a loop": Kind(
        "SW403",
        {"guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "$args.amount > 500"}]},
        '(doseq [o (take 3 (tool/list_orders))] (when (< (:total o) 900) (tool/pay {:amount (:total o) :to "ada"})))',
        '(doseq [o (take 3 (tool/list_orders))] (when (< (:total o) 500) (tool/pay {:amount (:total o) :to "ada"})))',
    ),
    "an end before somebody is told": Kind(
        "SW405",
        {"guardrails": [TOLD]},
        f'(do {PAY} (when (> amount 9) (return "quiet")) (tool/tell {{:text "paid"}}))',
        f'(do (when (> amount 9) (return "quiet")) {PAY} (tool/tell {{:text "paid"}}))',
    ),
    "two things that exclude each other": Kind(
        "SW406",
        {"guardrails": [{"name": "r", "exclusive": [{"tool": "pay"}, {"tool": "cancel"}]}]},
        f"(do (when (> amount 5) {PAY}) (when (< amount 7) (tool/cancel)))",
        f"(if (> amount 5) {PAY} (when (< amount 7) (tool/cancel)))",
    ),
}

SETTLE: Final = '(defn settle [amount] (tool/pay {:amount amount :to "ada"}))\n'

AROUND: Final = {
    "alone": """\
(let [amount (tool/amount_of {:id data/id})]
  BODY)""",
    "behind a filter": """\
(let [open (filter #(= (:status %) "open") (tool/list_orders))
      amount (tool/amount_of {:id data/id})]
  (when (seq open)
    BODY))""",
    "in a function": """\
(defn act [amount]
  BODY)
(->> data/id (str "order ") count inc)
(act (tool/amount_of {:id data/id}))""",
    "behind a choice": """\
(let [{:keys [id mode]} data/request]
  (case mode
    "fast" (let [amount (tool/amount_of {:id (str id)})]
             BODY)
    nil))""",
}
"""What stands around a body."""


def programs() -> list[tuple[str, str, Kind, str, str]]:
    """Return a name, what stands around, the kind, and both programs."""
    return [
        (name, around, kind, *(_whole(text, body) for body in (kind.bad, kind.good)))
        for name, kind in KINDS.items()
        for around, text in AROUND.items()
    ]


def _whole(around: str, body: str) -> str:
    text = around.replace("BODY", body)
    return SETTLE + text if "(settle " in body else text


def policy_of(kind: Kind) -> dict[str, Any]:
    """Return the policy of a kind."""
    return {"policy": "house", "tools": TOOLS, **kind.rules}
