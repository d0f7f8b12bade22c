"""Whether the new program pays large invoices only after an approval, and has a rule of its own that says so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from behaviour import Run, differences
from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program, ProgramError
from trial import Trial

FILE, INVOICE = "invoice.yaml", "INV-000042"
LIMIT, LEAST_ABOVE = 1000, 1000.01
WRITES = ["pay_invoice", "tell_supplier"]
ASKED_BEFORE = {"name": "hidden", "protects": {"tool": "pay_invoice"}, "requires": {"tool": "ask_manager"}}
NEVER_PAID = {"name": "hidden", "never": {"tool": "pay_invoice"}}


def written(trial: Trial) -> Iterator[str]:
    """Yield what is missing of the program with an approval."""
    if not (trial.folder / FILE).is_file():
        yield f"`{FILE}` is missing"
        return
    errors = list(trial.errors(FILE, "--tools", "tools.py"))
    if errors:
        yield from errors
        return
    try:
        program = Program.load(trial.folder / FILE)
    except ProgramError as error:
        yield str(error)
        return
    data = program.to_dict()
    if "amount" not in data.get("inputs", {}) or "ask_manager" not in data.get("tools", {}):
        yield "the program does not declare the input `amount` and the tool `ask_manager`"
        return
    yield from behaves(program)
    if breaks(above_the_limit(data), ASKED_BEFORE):
        yield "a large invoice can be paid without a question to the manager"
    if breaks(refused(above_the_limit(data)), NEVER_PAID):
        yield "a large invoice can be paid although the manager refuses"
    yield from has_no_rule(data)


def behaves(program: Program) -> Iterator[str]:
    """Yield in which hidden runs the program does something else."""
    for amount in (0, 999, LIMIT):
        yield from differences(program, run_of(amount, "SUCCESS", pays=True), WRITES)
    for amount in (1001, 100000):
        yield from differences(program, run_of(amount, "SUCCESS", pays=True, answer=True), WRITES)
        run = run_of(amount, "FAILED", answer=False)
        told = [one for one in differences(program, run, WRITES) if "tell_supplier" not in one]
        yield from told or supplier_is_told(program, run)


def run_of(amount: float, ends: str, *, pays: bool = False, answer: bool | None = None) -> Run:
    """Return a hidden run; without an answer nobody may be asked."""
    payments = [{"pay_invoice": {"invoice": INVOICE, "amount": amount}}] if pays else []
    return Run(
        name=f"an invoice of {amount}" + ("" if answer is None else f" that is {'approved' if answer else 'refused'}"),
        inputs={"invoice": INVOICE, "amount": amount},
        answers={"ask_manager": {"waits": True}, "pay_invoice": "PAY-1"},
        does=payments,
        ends=ends,
        resumes=[] if answer is None else [{"approved": answer}],
    )


def supplier_is_told(program: Program, run: Run) -> Iterator[str]:
    """Yield a problem if nobody writes to the supplier after a refusal, whatever the words."""
    if not list(differences(program, run, ["tell_supplier"])):
        yield f"{run.name}: the supplier is not told"


def breaks(data: dict[str, Any], rule: dict[str, Any]) -> bool:
    """Return whether a program can break a hidden rule, or nobody knows."""
    policy = Policy.from_dict({"policy": "hidden", "guardrails": [rule]})
    report = ProgramValidator(Program.from_dict(data), [policy], recheck=False).validate()
    return any(one.rule == "hidden" and one.verdict != "proved" for one in report.properties)


def above_the_limit(data: dict[str, Any]) -> dict[str, Any]:
    """Return the program for large invoices only."""
    changed = copy.deepcopy(data)
    changed["inputs"]["amount"]["minimum"] = LEAST_ABOVE
    return changed


def refused(data: dict[str, Any]) -> dict[str, Any]:
    """Return the program with a manager who always refuses."""
    changed = copy.deepcopy(data)
    answer = {"type": "object", "properties": {"approved": {"enum": [False]}}, "required": ["approved"]}
    changed["tools"]["ask_manager"]["returns"] = answer
    return changed


def has_no_rule(data: dict[str, Any]) -> Iterator[str]:
    """Yield each condition whose branches can be swapped so that a large invoice is paid, and no rule complains."""
    for number, step in enumerate(data["steps"]):
        if "then" not in step or "otherwise" not in step or "cases" in step:
            continue
        steps = list(data["steps"])
        steps[number] = {**step, "then": step["otherwise"], "otherwise": step["then"]}
        swapped = {**data, "steps": steps}
        is_unsafe = breaks(above_the_limit(swapped), ASKED_BEFORE)
        if not (is_unsafe or breaks(refused(above_the_limit(swapped)), NEVER_PAID)):
            continue
        report = ProgramValidator(Program.from_dict(swapped), recheck=False).validate()
        if not any(finding.code.startswith("SW40") for finding in report.errors):
            yield f"no rule of the program complains if the branches of `{step['id']}` are mixed up"
