"""Every good program runs to an end: with the tools and replies that lie beside them, and with answers of any kind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from commands import program_in
from machines import unchecked
from paths import PROGRAMS
from sizes import size
from stepward.validator.cli.objects import load_file
from stepward.vm import ExecutionVM, ModelReply, ModelRequest, Program, Run, ScriptedModel, ToolContext
from stepward.vm.journal.canonical import Sealed, Secret, opened
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.data import marked
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.known import brings_output
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import replay
from stepward.vm.reading.files import read_file

FILES = sorted(path for path in (PROGRAMS / "good").iterdir() if path.suffix in (".yaml", ".json", ".py"))
TOOLS = vars(load_file(str(PROGRAMS / "tools.py")))

INPUTS: dict[str, dict[str, Any]] = {
    "access_request": {
        "requester_id": "EMP-000001",
        "system": "payroll",
        "role": "editor",
        "justification": "month end",
    },
    "card_collection": {"invoices": [{"invoice_id": f"INV-{number}", "amount": 40} for number in (1, 2, 3)]},
    "claim_above_limit": {"claim_id": "CLM-000001", "amount": 620},
    "consented_export": {"member_id": "MEM-000001", "consent": True, "partner": "museum"},
    "content_moderation": {"post_id": "PST-00000001", "author_id": "USR-000001", "text": "hello"},
    "customer_onboarding": {
        "applicant_id": "APP-000001",
        "full_name": "Ann Example",
        "customer_email": "ann@example.com",
        "document_id": "DOC-000001",
        "country": "DE",
    },
    "customer_refund": {
        "order_id": "ORD-000042",
        "request": "It came broken",
        "amount": 620,
        "customer_email": "ann@example.com",
    },
    "data_erasure": {"request_id": "REQ-000001", "subject_email": "ann@example.com", "jurisdiction": "eu"},
    "database_migration": {"database": "orders", "migration_id": "MIG-0001"},
    "desk_payout": {"voucher_id": "VCH-000001", "amount": 45},
    "document_extraction": {"document_id": "DOC-000001", "kind": "invoice"},
    "expense_reimbursement": {
        "report_id": "EXP-000001",
        "employee_id": "EMP-000001",
        "amount": Decimal("86.40"),
        "category": "meals",
        "receipt_count": 4,
    },
    "failed_payment_recovery": {
        "payment_id": "PAY-00000001",
        "customer_id": "CUS-000001",
        "phone": "+4915112345678",
        "amount": 60,
        "currency": "EUR",
    },
    "feature_flag_rollout": {"flag": "new-search"},
    "gold_shortcut": {"order_id": "ORD-000042", "customer_id": "CUS-000001", "tier": "silver", "parcels": 2},
    "hotel_deposit": {"booking_id": "BKG-000001", "amount": 120},
    "incident_triage": {
        "alert_id": "ALR-000001",
        "service": "api",
        "environment": "production",
        "report": "slow since noon",
    },
    "invoice_approval": {
        "invoice_id": "INV-00000001",
        "supplier_id": "SUP-000007",
        "amount": 1190,
        "currency": "EUR",
        "purchase_order_id": "PO-000001",
        "cost_centre": "OPS001",
    },
    "large_shipment": {"order_id": "ORD-000042", "total": 1300},
    "loan_decision": {
        "application_id": "LAP-000001",
        "amount": 9000,
        "term_months": 36,
        "purpose": "car",
        "employment": "permanent",
        "age": 41,
        "country": "DE",
        "statement": "a car for the way to work",
    },
    "marketplace_payout": {
        "order_id": "ORD-000042",
        "first_seller": "SLR-0001",
        "first_amount": 1300,
        "second_seller": "SLR-0002",
        "second_amount": Decimal("19.90"),
    },
    "nightly_archive": {"tables": ["orders", "visits", "carts"]},
    "nightly_report": {"report_date": "2026-03-02", "recipients": ["ops@example.com"]},
    "discount_bands": {"order_id": "ORD-000042", "quantity": 100},
    "shipping_by_zone": {"parcel_id": "PCL-000042", "zone": "union", "weight_kg": Decimal("30.5")},
    "three_suppliers": {"item": "pallet", "pieces": 40},
    "suppliers_at_once": {"item": "pallet", "amount": 40},
    "invoice_dunning": {"invoice": "INV-000042"},
    "spending_request": {"request": "REQ-000042", "amount": 900},
    "refund_order_lines": {
        "order_id": "ORD-000042",
        "lines": [{"sku": sku, "amount": amount} for sku, amount in (("mug", 12), ("sofa", 990), ("lamp", 60))],
    },
    "question_desk": {"questions": ["how long may I send it back?", "who pays the parcel?"]},
    "supplier_quotes": {"item": "pallet", "suppliers": ["north", "east", "south"]},
    "price_update": {
        "supplier": "north",
        "prices": [{"sku": sku, "price": price} for sku, price in (("N-1", 13), ("N-2", 20), ("S-1", 5), ("X-9", 5))],
    },
    "team_budget": {
        "budget": 100,
        "wishes": [{"article": article, "price": price} for article, price in (("desk", 80), ("lamp", 30), ("pen", 2))],
    },
    "order_release": {
        "order_id": "ORD-000042",
        "lines": [{"sku": sku, "pieces": pieces} for sku, pieces in (("mug", 4), ("lamp", 1))],
    },
    "trip_booking": {"trip_id": "TRP-000042", "nights": 3},
    "parcel_carrier": {"parcel_id": "PCL-000001"},
    "password_reset": {"account_id": "ACC-000001", "customer_email": "ann@example.com"},
    "post_checkout": {
        "event_id": "EVT-0000000001",
        "event_type": "checkout.completed",
        "signature": "676d0de7fe889635",
        "order_id": "ORD-000042",
        "total": 740,
        "customer_email": "ann@example.com",
        "phone": "+4915112345678",
    },
    "record_cleanup": {"store": "web", "weeks": 8},
    "release_notes": {"release": "v2.7"},
    "stuck_order": {"order_id": "ORD-000042"},
    "subscription_cancellation": {
        "subscription_id": "SUB-000001",
        "customer_email": "ann@example.com",
        "reason_text": "it got too expensive",
    },
    "support_ticket_routing": {"ticket_id": "TCK-000001", "body": "my export never ends", "customer_tier": "plus"},
}


def example(spec: TypeSpec | None, choices: Iterator[int]) -> Any:
    """Return a value of a type; which of several comes from `choices`."""
    if spec is None or (spec.type is None and spec.enum is None):
        return "anything"
    if spec.enum is not None:
        return spec.enum[next(choices) % len(spec.enum)]
    kind = (spec.type or ())[next(choices) % len(spec.type or ())]
    if kind == "object":
        return {name: example(part, choices) for name, part in (spec.properties or {}).items()}
    if kind == "array":
        return [example(spec.items, choices) for _ in range(next(choices) % 3)]
    if kind in ("integer", "number"):
        low, high = spec.minimum or 0, spec.maximum
        found = low + next(choices) * 7 % 900
        return found if high is None or found <= high else high
    return {"boolean": next(choices) % 2 == 0, "null": None, "string": "2026-03-02"}[kind]


def to_its_end(machine: ExecutionVM, clock: ManualClock, program: Program, payload: Any) -> Run:
    """Run a program, resume it as often as it suspends, and return it when it has ended."""
    plan = Plan(program)
    run = machine.run_sync(program, INPUTS[program.name])
    for _ in range(100):
        if not run.is_over and not run.suspensions and run.due is not None:
            clock.time = max(clock.time, int(run.due * 1e6) + 1)
            (run,) = machine.recover_sync(run.id)
            continue
        if not run.suspensions:
            return run
        waits = run.suspensions[0]
        (call,) = [call for step in plan.steps for call in step.calls if call.id == waits.step]
        run = machine.resume_sync(waits.token, payload(call.returns))
    raise AssertionError(f"{program.name} suspends without end")


def agreed(spec: TypeSpec) -> Any:
    """Return what somebody says who agrees."""
    if spec.type == ("object",):
        return {name: agreed(part) for name, part in (spec.properties or {}).items()}
    return spec.enum[0] if spec.enum else {("boolean",): True, ("string",): "as you say"}[spec.type or ()]


def sealed_parts(value: Any) -> list[Any]:
    """Return the parts of a value that are sealed, or marked to be."""
    if isinstance(value, Sealed | Secret):
        return [value.value]
    if isinstance(value, dict):
        return [part for item in value.values() for part in sealed_parts(item)]
    return [part for item in value for part in sealed_parts(item)] if isinstance(value, tuple) else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_good_program_succeeds_with_the_tools_and_replies_beside_it(path: Path) -> None:
    program = program_in(path)
    replies = PROGRAMS / "replies" / f"{path.stem}.yaml"
    asks_a_model = any(call.is_model for step in Plan(program).steps for call in step.calls)
    assert asks_a_model == replies.exists()
    script: Mapping[str, Any] = read_file(replies)[0].data if asks_a_model else {}
    clock = ManualClock()
    machine = unchecked(TOOLS, ScriptedModel(script), clock=clock)  # `test_fixtures.py` checks them all
    run = to_its_end(machine, clock, program, agreed)
    assert (run.status, run.error, run.broken) == ("SUCCESS", "", ())
    replayed = replay(machine.journal, run.id)
    assert replayed is not None
    assert replayed.faults == ()
    assert replayed.run.snapshot() == run.snapshot()
    found = load(machine.journal, run.id, lambda *documents: stored_plan(machine.journal, *documents))
    assert found is not None
    calls = {call.id: call for step in found.plan.steps for call in step.calls}
    for happened in filter(brings_output, found.events):
        output = happened.body["output"]
        # What is sealed is what the types say: no output repeats an input.
        assert sealed_parts(output) == sealed_parts(marked(opened(output), calls[happened.body["step"]].returns))


def test_every_tool_that_a_good_program_declares_is_there() -> None:
    declared = {name for path in FILES for name in program_in(path).tools or {}}
    assert declared <= TOOLS.keys()
    homes = {name: getattr(value, "__module__", "") for name, value in TOOLS.items()}
    shared = "example_tools.values"
    assert {name for name, home in homes.items() if home.startswith("example_tools.") and home != shared} == declared


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(size(2, 8)))
def test_a_good_program_ends_whatever_it_is_answered(path: Path, seed: int) -> None:
    program = program_in(path)
    plan = Plan(program)
    returns = {call.id: call.returns for step in plan.steps for call in step.calls}
    choices = itertools.count(seed, 1 + seed % 3)

    class Anything:
        """Tools and a model that answer something of the right type, and fail now and then."""

        def has(self, name: str) -> bool:
            return True

        async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
            if next(choices) % 11 == 10:
                raise ConnectionError("nobody answers")
            await asyncio.sleep(0)
            return example(returns[context.step], choices)

        async def complete(self, request: ModelRequest) -> ModelReply:
            if request.allowed:
                return ModelReply(request.allowed[next(choices) % len(request.allowed)], 3, Decimal("0.001"))
            return ModelReply(example(returns[request.step], choices), 3, Decimal("0.001"))

    clock = ManualClock()
    machine = unchecked(Anything(), Anything(), clock=clock)
    run = to_its_end(machine, clock, program, lambda spec: example(spec, choices))
    assert run.is_over
    assert run.broken == ()
    replayed = replay(machine.journal, run.id)
    assert replayed is not None
    assert replayed.faults == ()
