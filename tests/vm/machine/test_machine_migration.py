"""Fast: runs that wait move to new versions: what is carried, proved, refused, recorded, verified and erased."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from stepward.validator import check_program
from stepward.vm import ExecutionVM, MemoryJournal, NoSuchRun, Policy, Program, RunRefused, SQLiteJournal, Suspend
from stepward.vm.journal.store import JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine import migration
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.events import make_event
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.moving import moved_event, version_of
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import replayer

ANSWERS = {"enum": ["agree", "refuse"]}
TOOLS: dict[str, Any] = {
    "ask": {"effect": "none", "suspends": True, "returns": ANSWERS},
    "hold": {"effect": "none", "suspends": True, "returns": ANSWERS},
    "tier": {"effect": "read", "returns": {"enum": ["basic", "gold"]}},
    "refund": {"effect": "write", "args": {"sum": {"type": "number"}}},
    "mail": {"effect": "write", "args": {}},
}
FIRST: dict[str, Any] = {
    "name": "refund",
    "inputs": {"amount": {"type": "number", "minimum": 0}},
    "tools": TOOLS,
    "guardrails": [
        {"name": "agreed-first", "protects": {"tool": "refund"}, "requires": {"step": "agreed", "branch": "then"}}
    ],
    "steps": [
        {"id": "tier", "type": "tool", "tool": "tier"},
        {"id": "ask", "type": "tool", "tool": "ask", "output_key": "answer"},
        {"id": "agreed", "type": "condition", "condition": "$answer == 'agree'", "then": "pay", "otherwise": "no"},
        {"id": "pay", "type": "tool", "tool": "refund", "args": {"sum": "$amount"}, "is_terminal": True},
        {"id": "no", "type": "end", "outcome": "failure"},
    ],
}


def version(**changes: Any) -> dict[str, Any]:
    """Return the program with a mail after the refund of gold customers, and with changes of steps by their ids."""
    data = copy.deepcopy(FIRST)
    data["steps"][3] |= {"next_step": "mail"}
    del data["steps"][3]["is_terminal"]
    gold = {
        "id": "gold",
        "type": "condition",
        "condition": "$tier.output == 'gold'",
        "then": "pay",
        "otherwise": "mail",
    }
    data["steps"][2]["then"] = "gold"
    data["steps"] = [
        *data["steps"][:3],
        gold,
        *data["steps"][3:],
        {"id": "mail", "type": "tool", "tool": "mail", "is_terminal": True},
    ]
    for step in data["steps"]:
        step.update(changes.get(step["id"], {}))
    data["guardrails"] += changes.get("guardrails", [])
    return data


class Desk:
    """A machine with one run that waits."""

    def __init__(self, first: dict[str, Any] = FIRST, amount: Any = 12, journal: Any = None, **means: Any) -> None:
        self.done: list[Any] = []
        tools = {
            "ask": lambda: Suspend("may it?"),
            "hold": lambda: Suspend("now?"),
            "tier": lambda: "gold",
            "refund": self.refund,
            "mail": lambda: self.done.append("mail"),
        }
        self.journal = MemoryJournal() if journal is None else journal
        self.clock = ManualClock()
        self.vm = ExecutionVM(tools, journal=self.journal, clock=self.clock, **{"checker": check_program, **means})
        self.run = self.vm.run_sync(
            Program.from_dict(first), {"amount": amount}, run_id="r", by="ann", accept=("SW601",)
        )
        assert self.run.status == "SUSPENDED"
        self.token = self.run.suspensions[0].token

    def refund(self, sum: Any) -> None:
        self.done.append(sum)

    def migrate(self, data: dict[str, Any], **given: Any) -> migration.Migration:
        return self.vm.migrate_sync("r", Program.from_dict(data), **given)

    def refuses(self, data: dict[str, Any], *words: str, **given: Any) -> None:
        before = self.vm.get_sync("r").head
        with pytest.raises(RunRefused) as caught:
            self.migrate(data, **given)
        for word in words:
            assert word in str(caught.value)
        assert self.vm.get_sync("r").head == before

    def history(self, run: str) -> Any:
        found = load(self.journal, run, partial(stored_plan, self.journal))
        assert found is not None
        return found

    def faults(self, run: str) -> list[str]:
        return [fault.what for fault in verify(self.journal, run, replay=replayer(self.journal, run)).faults]


# -- what moves --------------------------------------------------------------------------------------------------------


def test_a_run_moves_and_goes_on_with_the_rest_of_the_version() -> None:
    desk = Desk()
    told = desk.vm.migration_sync("r", Program.from_dict(version()))
    assert (told.step, told.becomes, told.carries) == ("ask", "r~1", ("amount", "ask.output", "tier.output"))
    assert told.head == desk.run.head == desk.vm.get_sync("r").head, "a dry run changes nothing"
    assert desk.migrate(version(), head=told.head, by="bob") == told
    assert [(one.kind, getattr(one, "by", None)) for one in desk.vm.get_sync("r").trace][-1] == ("moved", "bob")
    run = desk.vm.resume_sync(desk.token, "agree")
    assert (run.id, run.status, desk.done) == ("r~1", "SUCCESS", [12, "mail"])
    first = desk.vm.get_sync("r")
    assert (first.status, first.reason, first.has_moved, first.broken) == ("CANCELLED", "moved", True, ())
    assert desk.vm.before_sync("r~1") == ["r"]
    assert (desk.faults("r"), desk.faults("r~1")) == ([], [])


def test_a_run_may_move_again_while_it_waits() -> None:
    desk = Desk()
    desk.migrate(version())
    desk.migrate(FIRST)
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUCCESS"
    assert desk.done == [12]
    assert desk.faults("r~1") == []


def test_a_policy_that_comes_between_two_moves_makes_no_earlier_one_wrong() -> None:
    desk = Desk()
    desk.migrate(version())
    policy = Policy.from_dict({"policy": "later", "four_eyes": ["refund"]})
    desk.vm = ExecutionVM(desk.vm.tools, None, desk.journal, policy, checker=check_program, clock=desk.clock)
    desk.migrate(FIRST)
    assert desk.faults("r") == []
    run = desk.vm.resume_sync(desk.token, "agree")
    assert (run.status, desk.faults("r"), desk.faults("r~1")) == ("SUCCESS", [], [])


def test_a_run_that_has_moved_moves_again_behind_the_next_wait() -> None:
    desk = Desk()
    held = version(gold={"then": "hold", "otherwise": "hold"})
    held["steps"].append({"id": "hold", "type": "tool", "tool": "hold", "output_key": "now", "next_step": "pay"})
    desk.migrate(held)
    run = desk.vm.resume_sync(desk.token, "agree")
    assert (run.id, run.status, run.step) == ("r~1", "SUSPENDED", "hold")
    later = copy.deepcopy(held)
    later["steps"][-1]["next_step"] = "mail"
    desk.vm.migrate_sync("r~1", Program.from_dict(later))
    run = desk.vm.resume_sync(run.suspensions[0].token, "agree")
    assert (run.id, run.status, desk.done) == ("r~2", "SUCCESS", ["mail"])
    assert [desk.faults(name) for name in ("r", "r~1", "r~2")] == [[], [], []]


def test_an_output_is_carried_by_any_number_of_moves() -> None:
    loop = copy.deepcopy(FIRST)
    loop["steps"][2]["otherwise"] = "again"
    loop["steps"][4] = {"id": "again", "type": "set", "set": {"of": "$tier.output"}, "next_step": "ask"}
    desk = Desk(loop, checker=lambda *_: ())
    run, token = desk.run, desk.token
    for number in range(1, 5):
        desk.vm.migrate_sync(run.id, Program.from_dict(loop))
        run = desk.vm.resume_sync(token, "refuse")
        assert (run.id, run.status) == (f"r~{number}", "SUSPENDED"), run.error
        token = run.suspensions[0].token
        assert desk.faults(run.id) == []


def test_values_that_are_known_count_in_the_proof() -> None:
    rules = [{"name": "small", "never": {"tool": "refund"}, "when": "$args.sum > 100"}]
    policy = Policy.from_dict({"policy": "desk", "guardrails": rules})
    data = version()
    Desk(amount=12, checker=check_program).migrate({**data, "guardrails": [*data["guardrails"], *rules]})
    desk = Desk(amount=120)
    desk.refuses({**data, "guardrails": [*data["guardrails"], *rules]}, "SW403", "`small`")
    assert policy.guardrails


def test_a_variable_that_is_assigned_again_begins_with_its_value() -> None:
    first = copy.deepcopy(FIRST)
    first["steps"].insert(0, {"id": "count", "type": "set", "set": {"sum": "$amount + 1"}})
    data = copy.deepcopy(first)
    data["steps"][3]["then"] = "more"
    data["steps"].append({"id": "more", "type": "set", "set": {"sum": "$sum + 1"}, "next_step": "pay"})
    next(step for step in data["steps"] if step["id"] == "pay")["args"] = {"sum": "$sum"}
    desk = Desk(first)
    desk.migrate(data)
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUCCESS"
    assert desk.done == [14]
    assert desk.faults("r~1") == []


def test_items_and_branches_are_parts_of_a_rest() -> None:
    first = {**copy.deepcopy(FIRST), "language": 2}
    data = {**version(), "language": 2}
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "one", "max_items": 2, "next_step": "fork"}
    each["steps"] = [{"id": "inner", "type": "set", "set": {"more": "$one + $amount"}}]
    sides = {name: {"steps": [{"id": f"in_{name}", "type": "tool", "tool": "mail"}]} for name in ("left", "right")}
    fork = {"id": "fork", "type": "parallel", "branches": sides, "next_step": "pay"}
    data["steps"][3] |= {"then": "each", "otherwise": "each"}
    data["steps"] += [each, fork]
    desk = Desk(first)
    desk.migrate(data)
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUCCESS"
    assert desk.done == ["mail", "mail", 12, "mail"]
    assert desk.faults("r~1") == []


def test_what_was_paid_stays_paid_and_what_is_owed_is_owed() -> None:
    first = copy.deepcopy(FIRST)
    first["steps"].insert(0, {"id": "early", "type": "tool", "tool": "mail"})
    desk = Desk(first)
    once = [{"name": "one-mail", "at_most_once": {"tool": "mail"}}]
    data = version(guardrails=once)
    data["steps"].insert(0, first["steps"][0])
    desk.refuses(data, "SW404", "`one-mail`")
    owed = copy.deepcopy(first)
    owed["guardrails"].append({"name": "paid", "followed_by": {"first": {"tool": "mail"}, "then": {"tool": "refund"}}})
    desk.refuses(owed, "SW405", "`paid`")


def test_a_past_that_breaks_a_rule_of_the_version_is_refused() -> None:
    first = copy.deepcopy(FIRST)
    first["steps"].insert(0, {"id": "early", "type": "tool", "tool": "mail"})
    desk = Desk(first)
    data = copy.deepcopy(first)
    data["guardrails"].append({"name": "no-mail", "never": {"tool": "mail"}})
    desk.refuses(data, "has broken rule `no-mail` in record")


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_can_not_move_is_refused_in_words() -> None:
    desk = Desk()
    desk.refuses(version(agreed={"otherwise": "pay"}), "SW401", "`agreed-first`")
    gone = version()
    gone["steps"][1]["id"] = "question"
    desk.refuses(gone, "no step `ask`")
    desk.refuses(version(ask={"tool": "hold"}), "calls `ask`, and `hold`")
    typed = version()
    typed["tools"]["ask"] = {**TOOLS["ask"], "returns": {"type": "string"}}
    desk.refuses(typed, "`returns` of `ask`")
    new = version(pay={"args": {"sum": "$extra"}})
    new["inputs"]["extra"] = {"type": "number"}
    desk.refuses(new, "its input `extra` is new, and has no default")
    desk.refuses(version(), "another head", head="0" * 64)
    desk.refuses({**version(), "language": 2}, "`language: 1`")
    with pytest.raises(NoSuchRun):
        desk.vm.migrate_sync("other", Program.from_dict(version()))
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUCCESS"
    desk.refuses(version(), "does not wait: it is SUCCESS")


def test_a_wait_in_a_parallel_step_or_at_the_end_does_not_move() -> None:
    last = {**FIRST, "guardrails": [], "steps": [{"id": "ask", "type": "tool", "tool": "ask"}]}
    Desk(last).refuses(last, "nothing is left to move")


ASK = {"id": "ask", "type": "tool", "tool": "ask"}
EACH = {"id": "lines", "type": "for_each", "items": [1, 2], "as": "line", "steps": [ASK]}
WITHIN: dict[str, tuple[dict[str, Any], str]] = {
    "calls": (
        {"id": "both", "type": "parallel", "parallel_steps": [ASK, {**ASK, "id": "other"}]},
        "the calls of `both`",
    ),
    "branches": (
        {"id": "both", "type": "parallel", "branches": {"left": {"steps": [ASK]}}},
        "the branches of `both`",
    ),
    "items": (EACH, "`ask` of the items of `lines`"),
    "one call": ({**EACH, "steps": None, "do": ASK}, "`ask` of the items of `lines`"),
    "items at once": ({**EACH, "max_concurrency": 2}, "the items of `lines`"),
    "items of items": ({**EACH, "steps": [{**EACH, "id": "inner", "as": "word"}]}, "`ask` of the items of `lines`"),
    "branches of items": (
        {**EACH, "steps": [{"id": "both", "type": "parallel", "branches": {"left": {"steps": [ASK]}}}]},
        "`both` of the items of `lines`",
    ),
    "items of branches": (
        {"id": "both", "type": "parallel", "branches": {"left": {"steps": [EACH]}}},
        "the branches of `both`",
    ),
}
"""Steps within which a run waits, and the words for where it does."""


@pytest.mark.parametrize("name", WITHIN)
def test_a_run_that_waits_within_a_step_moves_once_that_has_ended(name: str) -> None:
    step, words = WITHIN[name]
    step = {field: value for field, value in step.items() if value is not None}
    then = {"id": "then", "type": "tool", "tool": "hold"}
    data = {**FIRST, "language": 2, "guardrails": [], "steps": [step, then, {"id": "over", "type": "end"}]}
    desk = Desk(data)
    with pytest.raises(RunRefused) as refused:
        desk.vm.migrate_sync("r", Program.from_dict(data))
    where = f"run `r` waits in {words}: it can move once that has ended"
    assert where in str(refused.value)
    assert "no version changes that" in refused.value.help
    run = desk.vm.get_sync("r")
    while run.suspensions[0].step != "then":
        run = desk.vm.resume_sync(run.suspensions[0].token, "agree")
    assert desk.vm.migrate_sync("r", Program.from_dict(data)).becomes == "r~1"


def test_a_machine_without_a_checker_moves_nothing() -> None:
    Desk(checker=None).refuses(version(), "no checker")


def test_visits_and_budgets_go_on() -> None:
    loop = copy.deepcopy(FIRST)
    loop["steps"][1]["max_visits"] = 2
    loop["steps"][2]["otherwise"] = "again"
    loop["steps"][4] = {"id": "again", "type": "set", "set": {"more": True}, "next_step": "ask"}
    desk = Desk(loop)
    desk.migrate(loop)
    run = desk.vm.resume_sync(desk.token, "refuse")
    assert (run.id, run.step, run.status) == ("r~1", "ask", "SUSPENDED")
    with pytest.raises(RunRefused, match="`ask` has used up the visits"):
        desk.vm.migrate_sync("r~1", Program.from_dict(loop))
    run = desk.vm.resume_sync(run.suspensions[0].token, "refuse")
    assert run.status == "STALLED"
    poor = Desk({**FIRST, "max_steps": 2})
    poor.refuses({**version(), "max_steps": 50}, "no steps are left")
    poor.migrate({**version(), "max_steps": 50}, grant={"steps": 3})
    assert poor.vm.resume_sync(poor.token, "agree").status == "BUDGET_EXCEEDED"
    assert poor.faults("r~1") == []


# -- crashes, cancelling, erasing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_created", [False, True], ids=["before", "after"])
def test_a_crash_while_a_run_leaves_doubles_and_loses_nothing(is_created: bool) -> None:
    desk = Desk()
    desk.migrate(version())
    depart = desk.vm._setup.depart
    assert depart is not None

    async def dies(driver: Any) -> None:
        if is_created:
            await depart(driver)
        raise KeyboardInterrupt

    desk.vm._setup = replace(desk.vm._setup, depart=dies)
    with pytest.raises(KeyboardInterrupt):
        desk.vm.resume_sync(desk.token, "agree")
    assert desk.vm.get_sync("r").status == "RUNNING"
    desk.vm._setup = replace(desk.vm._setup, depart=depart)
    asyncio.run(desk.clock.sleep(100))
    desk.vm.recover_sync("r")
    assert desk.vm.get_sync("r").has_moved
    desk.vm.recover_sync("r~1")
    assert (desk.vm.get_sync("r~1").status, desk.done) == ("SUCCESS", [12, "mail"])
    assert (desk.faults("r"), desk.faults("r~1")) == ([], [])


def test_cancelling_a_run_that_has_moved_cancels_the_one_that_goes_on() -> None:
    desk = Desk()
    desk.migrate(version())
    assert (desk.vm.cancel_sync("r").id, desk.vm.get_sync("r").reason) == ("r", "cancelled")
    held = version(gold={"then": "hold", "otherwise": "hold"})
    held["steps"].append({"id": "hold", "type": "tool", "tool": "hold", "next_step": "mail"})
    desk = Desk()
    desk.migrate(held)
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUSPENDED"
    run = desk.vm.cancel_sync("r")
    assert (run.id, run.status, run.reason) == ("r~1", "CANCELLED", "cancelled")


def test_sensitive_values_move_sealed_and_are_erased_as_one(tmp_path: Any) -> None:
    secret = copy.deepcopy(FIRST)
    secret["inputs"]["amount"]["sensitive"] = True
    data = version()
    data["inputs"]["amount"]["sensitive"] = True
    journal = SQLiteJournal(tmp_path / "runs.db")
    desk = Desk(secret, 41_999, journal)
    desk.migrate(data)
    assert desk.vm.resume_sync(desk.token, "agree").status == "SUCCESS"
    assert desk.done == [41_999, "mail"]
    records = b"".join(entry.record for name in ("r", "r~1") for entry in journal.read(name))
    assert b"41999" not in records
    assert (desk.faults("r"), desk.faults("r~1")) == ([], [])
    desk.vm.erase_sync("r")
    assert all(desk.vm.get_sync(name)._state.is_erased for name in ("r", "r~1"))
    assert journal.vault.get("r~1") == {}
    assert (desk.faults("r"), desk.faults("r~1")) == ([], [])
    journal.close()


# -- forgeries ---------------------------------------------------------------------------------------------------------


def forged(desk: Desk, **changes: Any) -> list[str]:
    """Return the faults of a run whose last record is a forged `moved`."""
    from stepward.vm.journal.store import Append
    from stepward.vm.machine.events import entry_of

    found = desk.history("r")
    program = Program.from_dict(version())
    desk.journal.put_document(Plan(program).digest, Plan(program).document)
    honest = moved_event(found, version_of(desk.journal, Plan(program).digest, {}), (), {})
    entry = entry_of(make_event("moved", {**honest.body, **changes}), found.last, 1_000)
    desk.journal.append(Append("r", found.last.seq, [entry], "SUSPENDED", 1.0, True), None)
    return desk.faults("r")


def test_forged_moves_are_found() -> None:
    assert "policies" in forged(Desk())[0]
    assert "no step" in forged(Desk(), step="agreed")[0] or "performed" in forged(Desk(), step="agreed")[0]
    for odd in ("f" * 64, 7, (7,)):
        assert "missing" in forged(Desk(), program=odd)[0]
        assert "missing" in forged(Desk(), policies=(odd,))[0]
    assert forged(Desk(), visit=2) != []
    assert forged(Desk(), more=1) != []
    assert forged(Desk(), granted={"steps": 5}) != []


def test_a_run_does_not_go_on_under_a_policy_that_was_changed_in_the_store() -> None:
    desk = Desk()
    desk.migrate(version(guardrails=[{"name": "pay-once", "at_most_once": {"tool": "refund"}}]))
    for digest in desk.history("r").records[-1].body["policies"]:
        desk.journal._documents[digest] = desk.journal._documents[digest].replace(b"refund", b"nobody")
    with pytest.raises(JournalError, match="not what was kept"):
        desk.vm.resume_sync(desk.token, "agree")
    assert desk.done == []


@pytest.mark.parametrize("change", ["program", "reads", "policies"])
def test_a_run_that_goes_on_otherwise_than_it_has_to_is_found(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, real = Desk(), migration.departure
    desk.migrate(version(guardrails=[{"name": "pay-once", "at_most_once": {"tool": "refund"}}]))

    def wrong(*given: Any) -> Any:
        program, reads, policies = real(*given)
        data = program.to_dict()
        if change == "program":
            data["steps"][0]["next_step"] = "pay"
        if change == "reads":
            reads = {name: source for name, source in reads.items() if name != "tier_output"}
            data["inputs"]["tier_output"]["default"] = "basic"
        if change == "policies":
            policies = [one for one in policies if not one.policy.startswith("version")]
        return Program.from_dict(data), reads, policies

    monkeypatch.setattr(migration, "departure", wrong)
    desk.vm.resume_sync(desk.token, "agree")
    words = {"program": "is not the rest", "reads": "is not the rest", "policies": "not under policy `version"}
    assert words[change] in desk.faults("r~1")[0]


def test_a_run_that_goes_on_for_somebody_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.migrate(version())
    real = desk.vm._create

    async def create(plan: Any, run: str, given: Any, who: Any, continues: Any) -> Any:
        return await real(plan, run, given, {**who, "by": "somebody"}, continues)

    monkeypatch.setattr(desk.vm, "_create", create)
    desk.vm.resume_sync(desk.token, "agree")
    assert "another person" in desk.faults("r~1")[0]
