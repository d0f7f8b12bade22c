"""Fast: a run that continues another goes on with its rules, repeats none of its writes, and is verified with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from stepward.validator import check_program
from stepward.vm import ExecutionVM, MemoryJournal, ModelReply, Policy, Program, Run, ScriptedModel
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.records import NO_DIGEST, read_record, write_record
from stepward.vm.journal.store import Append, Entry
from stepward.vm.journal.verify import verify
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.replay import replay, replayer

AMOUNT = {"type": "number"}
SECRET = {"type": "string", "sensitive": True}
TOOLS: dict[str, Any] = {
    "check": {"effect": "read", "returns": {"type": "boolean"}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": AMOUNT}},
    "mail": {"effect": "write", "idempotent": True, "args": {"to": {"type": "string"}}},
    "book": {"effect": "write", "idempotent": True},
}
RULES = [
    {"name": "agreed", "protects": {"tool": "pay"}, "requires": {"step": "is_agreed", "branch": "then"}},
    {"name": "book-once", "at_most_once": {"tool": "book"}},
]
FIRST = {
    "name": "first",
    "inputs": {"amount": AMOUNT, "address": SECRET},
    "tools": TOOLS,
    "guardrails": RULES,
    "steps": [
        {"id": "ask", "type": "tool", "tool": "check", "output_key": "yes"},
        {"id": "is_agreed", "type": "condition", "condition": "$yes and $amount > 0", "then": "pay_first"},
        {"id": "pay_first", "type": "tool", "tool": "pay", "args": {"sum": "$amount"}, "next_step": "tell"},
        {"id": "tell", "type": "tool", "tool": "mail", "args": {"to": "$address"}},
        {"id": "enter", "type": "tool", "tool": "book"},
        {"id": "count", "type": "set", "set": {"n": 1}},
        {"id": "pay_again", "type": "tool", "tool": "pay", "args": {"sum": 2}},
    ],
}
ACCEPTED = ["SW302", "SW601"]


class World:
    """A machine over a journal of its own, with tools that note their calls."""

    def __init__(self, policy: Any = (), *, checks: bool = False) -> None:
        self.calls: list[Any] = []
        self.journal = MemoryJournal()
        self.machine = self.other(policy, checks=checks)

    def other(self, policy: Any = (), *, checks: bool = False) -> ExecutionVM:
        note = self.calls.append
        tools = {
            "check": lambda: True,
            "pay": lambda sum: note(("pay", sum)),
            "mail": lambda to: note(("mail", to)),
            "book": lambda: note("book"),
        }
        return ExecutionVM(tools, None, self.journal, policy, check_program if checks else None)

    def begin(self, *, steps: int = 5, **more: Any) -> Run:
        """Run the first program until its budget of steps is used up."""
        program = Program.from_dict({**FIRST, "max_steps": steps, **more})
        run = self.machine.run_sync(
            program, {"amount": 1, "address": "anna@home"}, run_id="run", accept=ACCEPTED, by="anna"
        )
        assert run.status == "BUDGET_EXCEEDED"
        return run

    def go_on(self, program: Program, reads: Any = (), run: str = "run", **more: Any) -> Run:
        return self.machine.continue_run_sync(run, program, reads, **{"grant": {"steps": 20}, **more})

    def faults(self, run: str) -> list[str]:
        replayed = replay(self.journal, run)
        assert replayed is not None
        found = verify(self.journal, run, replay=replayer(self.journal, run)).faults
        assert [one.what for one in replayed.faults] == [one.what for one in found]
        return [one.what for one in found]


def after(*steps: dict[str, Any], **more: Any) -> Program:
    """Return a program that goes on."""
    return Program.from_dict({"name": "second", "tools": TOOLS, "inputs": {}, **more, "steps": list(steps)})


def pay(sum: Any, name: str = "pay_on", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "pay", "args": {"sum": sum}, **more}


def test_a_run_goes_on_where_another_was_interrupted() -> None:
    world = World(checks=True)
    first = world.begin(steps=6)
    doubled = {"id": "double", "type": "set", "set": {"twice": "$more * 2"}}
    run = world.go_on(after(doubled, pay("$twice"), inputs={"more": AMOUNT}), {"more": "n"})
    assert (run.id, run.status) == ("run~1", "SUCCESS")
    assert world.calls == [("pay", 1), ("mail", "anna@home"), "book", ("pay", 2)]
    said = run.continues
    assert said is not None
    assert (said.run, said.reads, said.number, said.granted) == ("run", {"more": "n"}, 1, {"steps": 20})
    assert first.continues is None
    assert world.faults("run") == world.faults("run~1") == []


def test_the_first_record_has_the_version_of_continuations() -> None:
    world = World()
    world.begin()
    world.go_on(after(pay(3)))
    records = [json.loads(entry.record) for entry in world.journal.read("run~1")]
    assert records[0]["v"] == 4
    assert {record["v"] for record in records[1:]} == {1}
    assert set(records[0]["body"]["continues"]) == {"run", "head", "reads", "number", "granted"}


def test_rules_go_on_where_they_were() -> None:
    world = World()
    world.begin()
    assert world.go_on(after({"id": "enter", "type": "tool", "tool": "book"})).error.startswith(
        "a run before this one, from `run` on, has called tool `book` in this way"
    )
    world = World()
    world.begin(tools={**TOOLS, "book": {**TOOLS["book"], "args": {}}})
    run = world.go_on(after({"id": "again", "type": "tool", "tool": "book", "args": {"n": 2}}, tools=None))
    assert "guardrail `book-once` forbids `again` to start" in run.error or "can't start" in run.error


def test_an_approval_is_as_fresh_as_it_was() -> None:
    world = World()
    world.begin()
    assert world.go_on(after(pay(3))).status == "SUCCESS"

    world = World()
    world.begin()
    run = world.go_on(after({"id": "other", "type": "set", "set": {"amount": 9}}, pay(9)))
    assert run.error == "guardrail `agreed` forbids `pay_on` to start: what it requires came, but is stale"

    # The same name with another value is an assignment, too.
    world = World()
    world.begin(steps=6)
    run = world.go_on(after(pay(9), inputs={"amount": AMOUNT}), {"amount": "n"})
    assert "is stale" in run.error

    world = World()
    world.begin(steps=1)
    assert "did not come before" in world.go_on(after(pay(9))).error


def test_the_gate_proves_the_continuation_from_that_state() -> None:
    world = World(checks=True)
    world.begin()
    with pytest.raises(RunRefused, match=r"SW404.*`enter_on`.*guardrail `book-once` of policy `program of run`"):
        world.go_on(after({"id": "enter_on", "type": "tool", "tool": "book"}))
    with pytest.raises(RunRefused, match=r"SW402.*`pay_on`.*is stale"):
        world.go_on(after({"id": "other", "type": "set", "set": {"amount": 9}}, pay(9)))
    assert world.go_on(after(pay(9))).status == "SUCCESS"


def test_no_write_is_repeated_but_a_similar_one_may_be_done() -> None:
    world = World()
    world.begin(steps=6)
    run = world.go_on(after(pay("$amount", "same", on_error="skip"), pay("$more", "other", on_error="skip"),
                            {"id": "e", "type": "end", "output": "$same.error"},
                            inputs={"amount": AMOUNT, "more": AMOUNT}),
                      {"amount": "amount", "more": "n"})  # fmt: skip
    assert run.status == "SUCCESS"
    assert run.output == "a run before this one, from `run` on, has called tool `pay` in this way"
    assert [call for call in world.calls if call[0] == "pay"] == [("pay", 1)]


def test_sensitive_arguments_are_not_compared() -> None:
    world = World()
    world.begin()
    run = world.go_on(after({"id": "tell_on", "type": "tool", "tool": "mail", "args": {"to": "somebody else"}}))
    assert run.status == "FAILED"
    assert "has called tool `mail`" in run.error


@pytest.mark.parametrize(
    ("reads", "inputs", "why"),
    [
        ({"x": "nothing"}, {"x": AMOUNT}, "`nothing` is not defined at the end of run `run`"),
        ({"x": "n + 1"}, {"x": AMOUNT}, "`n \\+ 1` is no variable or output"),
        ({"x": ""}, {"x": AMOUNT}, "is no variable or output"),
        ({"x": "n"}, {"x": {"type": "string"}}, "input `x`: .*"),
        ({"x": "n", "y": "n"}, {"x": AMOUNT}, "input `y` is not declared"),
        ({}, {"x": AMOUNT}, "input `x` is missing"),
        ({"x": "address"}, {"x": {"type": "string"}}, "`x` is sensitive in run `run`"),
        (["address"], {"address": {"type": "string"}}, "`address` is sensitive in run `run`"),
    ],
)
def test_what_can_not_be_read_is_refused(reads: Any, inputs: Any, why: str) -> None:
    world = World()
    world.begin(steps=6)
    with pytest.raises(RunRefused, match=why):
        world.go_on(after(pay(3), inputs=inputs), reads)


def test_a_sensitive_value_stays_one() -> None:
    world = World()
    world.begin()
    run = world.go_on(after({"id": "e", "type": "end", "output": "$to"}, inputs={"to": SECRET}), {"to": "$address"})
    assert run.status == "SUCCESS"
    assert b"anna@home" not in b"".join(entry.record for entry in world.journal.read("run~1"))


def test_what_an_unfinished_item_has_assigned_is_not_read() -> None:
    body = [{"id": "double", "type": "set", "set": {"inner": "$one * 2", "total": "$total + $one"}}]
    each = {"id": "each", "type": "for_each", "items": [1, 2, 3, 4], "as": "one", "max_items": 4, "carry": {"total": 0},
            "steps": body}  # fmt: skip
    world = World()
    program = Program.from_dict({"name": "loop", "language": 2, "steps": [each], "max_steps": 3})
    run = world.machine.run_sync(program, {}, run_id="run")
    assert run.status == "BUDGET_EXCEEDED"
    show = {"id": "e", "type": "end", "output": "$x"}
    for name in ("inner", "one"):
        with pytest.raises(RunRefused, match=f"`{name}` is not defined"):
            world.go_on(after(show, inputs={"x": AMOUNT}, language=2), {"x": name})
    found = world.go_on(after(show, inputs={"x": AMOUNT}, language=2), {"x": "total"})
    assert found.output == 3  # of the two items that have ended


# -- budgets, and who may continue what --------------------------------------------------------------------------------


def test_a_continuation_has_what_is_left() -> None:
    world = World()
    stalled = Program.from_dict(
        {"name": "idle", "max_steps": 9, "max_stalled_steps": 1, "steps": [
            {"id": "a", "type": "set", "set": {"n": 1}}, {"id": "b", "type": "set", "set": {"n": 1}},
            {"id": "c", "type": "set", "set": {"n": 1}}]}
    )  # fmt: skip
    run = world.machine.run_sync(stalled, {}, run_id="run")
    assert (run.status, run.steps) == ("STALLED", 2)
    loop = after({"id": "a", "type": "set", "set": {"n": 1}, "next_step": "a"}, max_steps=100)
    found = world.go_on(loop, grant={})
    assert (found.status, found.steps) == ("BUDGET_EXCEEDED", 7)
    with pytest.raises(RunRefused, match="no steps are left of `max_steps`: the operator may grant more"):
        world.go_on(loop, run="run~1", grant={})
    more = world.go_on(loop, run="run~1", grant={"steps": 3})
    assert (more.id, more.status, more.steps) == ("run~2", "BUDGET_EXCEEDED", 3)
    assert world.faults("run~2") == []


@pytest.mark.parametrize(
    "grant", [{"steps": 0}, {"steps": -1}, {"steps": True}, {"steps": 1.5}, {"patience": 3}, {"cost": "5"}]
)
def test_what_is_no_grant_is_refused(grant: Any) -> None:
    world = World()
    world.begin()
    with pytest.raises(RunRefused, match="granted"):
        world.go_on(after(pay(3)), grant=grant)


def test_a_stale_head_is_refused() -> None:
    world = World()
    first = world.begin()
    head = world.journal.read("run")[-1].digest.hex()
    with pytest.raises(RunRefused, match="another head"):
        world.go_on(after(pay(3)), head=world.journal.read("run")[-2].digest.hex())
    assert world.go_on(after(pay(3)), head=head).status == "SUCCESS"
    assert first.seq == len(world.journal.read("run")) - 1


def test_a_run_is_continued_once_and_three_times_in_all() -> None:
    world = World()
    world.begin()
    endless = after({"id": "a", "type": "set", "set": {"n": 1}, "next_step": "a"})
    world.go_on(endless)
    with pytest.raises(RunRefused, match="run `run` is continued already, by run `run~1`"):
        world.go_on(endless)
    world.go_on(endless, run="run~1")
    world.go_on(endless, run="run~2")
    with pytest.raises(RunRefused, match="was continued 3 times, and `max_continuations` is 3"):
        world.go_on(endless, run="run~3")
    assert world.go_on(endless, run="run~3", max_continuations=4).id == "run~4"
    assert world.faults("run~4") == []


def test_only_some_endings_are_continued() -> None:
    world = World()
    world.machine.run_sync(after(pay(1), name="good"), {}, run_id="good")
    with pytest.raises(RunRefused, match="run `good` has ended SUCCESS: only BUDGET_EXCEEDED and STALLED"):
        world.go_on(after(pay(3)), run="good")
    broken = after({"id": "c", "type": "condition", "condition": "$n", "then": "p"}, pay(1, "p"), inputs={"n": AMOUNT})
    world.machine.run_sync(broken, {"n": 1}, run_id="bad")
    with pytest.raises(RunRefused, match="has ended FAILED: it is continued only if that is asked for"):
        world.go_on(after(pay(3)), run="bad")
    assert world.go_on(after(pay(3)), run="bad", after_failure=True).status == "SUCCESS"
    assert world.faults("bad~1") == []


def test_a_step_does_not_take_the_place_of_the_one_that_a_rule_asks_for() -> None:
    world = World()
    world.begin(steps=1)
    fake = {"id": "is_agreed", "type": "condition", "condition": "1 == 1", "then": "pay_on"}
    with pytest.raises(RunRefused, match="a step `is_agreed`, for which guardrail `agreed` of run `run` asks"):
        world.go_on(after(fake, pay(9)))


def test_a_program_does_not_change_what_tools_are() -> None:
    world = World()
    world.begin()
    weak = {**TOOLS, "book": {"effect": "read"}}
    found = world.go_on(after({"id": "x", "type": "tool", "tool": "book"}, tools=weak))
    assert "has called tool `book`" in found.error  # it is still one that writes
    other = {**TOOLS, "pay": {"effect": "write", "args": {}}}
    with pytest.raises(RunRefused, match="`tools` says something else about the `args` of `pay`"):
        world.go_on(after(pay(3), tools=other), run="run~1", after_failure=True)


# -- policies of the machine -------------------------------------------------------------------------------------------


def test_policies_of_the_machine_are_in_the_state_of_the_chain_whatever_they_apply_to() -> None:
    mail_once = {"name": "mail-once", "at_most_once": {"tool": "mail"}}
    policy = Policy.from_dict({"policy": "desk", "applies_to": ["first"], "guardrails": [mail_once]})
    world = World(policy)
    world.begin(guardrails=[])
    other = {"id": "m", "type": "tool", "tool": "mail", "args": {"to": "x", "cc": "y"}}
    mail = {**TOOLS, "mail": {"effect": "write", "idempotent": True}}
    world = World(policy)
    world.begin(guardrails=[], tools=mail)
    run = world.go_on(after(other, tools=mail))
    assert "guardrail `mail-once` forbids `m` to start: it was performed before" in run.error
    assert world.faults("run~1") == []


def test_a_new_policy_of_the_machine_looks_at_the_whole_chain() -> None:
    world = World()
    world.begin(guardrails=[], steps=6)
    endless = after({"id": "a", "type": "set", "set": {"n": 1}, "next_step": "a"})
    world.go_on(endless, grant={"steps": 2})
    once = Policy.from_dict({"policy": "new", "guardrails": [{"name": "pay-once", "at_most_once": {"tool": "pay"}}]})
    world.machine = world.other(once)
    run = world.go_on(after(pay(7)), run="run~1")
    assert "guardrail `pay-once` forbids `pay_on`" in run.error
    assert world.faults("run~2") == []


# -- erasing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["run", "run~1"])
def test_a_chain_is_erased_as_one(run: str) -> None:
    world = World()
    world.begin()
    world.go_on(after({"id": "e", "type": "end", "output": "$to"}, inputs={"to": SECRET}), {"to": "address"})
    world.machine.erase_sync(run)
    assert dict(world.journal.vault.get("run")) == dict(world.journal.vault.get("run~1")) == {}
    assert world.faults("run") == world.faults("run~1") == []
    with pytest.raises(RunRefused, match="has ended SUCCESS"):
        world.go_on(after(pay(3)), run="run~1")


def test_an_erased_run_is_not_continued() -> None:
    world = World()
    world.begin()
    world.machine.erase_sync("run")
    with pytest.raises(RunRefused, match="the sensitive values of run `run` were erased"):
        world.go_on(after(pay(3)))


# -- forged continuations ----------------------------------------------------------------------------------------------


def forged(world: World, change: Callable[[dict[str, Any]], Any]) -> str:
    """Copy the runs of a world to a store in which `run~1` begins with another record; return the first fault."""
    shelf = MemoryJournal()
    for run in ("run", "other", "run~1"):
        entries, first = world.journal.read(run), read_record(world.journal.read(run)[0]).body
        for digest in (first["program"], *first["policies"]):
            shelf.put_document(digest, world.journal.document(digest))
        shelf.vault.put(run, dict(world.journal.vault.get(run)))
        written = list(_rewritten(entries, change)) if run == "run~1" else entries
        shelf.create(Append(run, -1, written, "SUCCESS", 0.0, True, None), "first", "nobody", 1.0)
    faults = verify(shelf, "run~1", replay=replayer(shelf, "run~1")).faults
    assert faults, "it is not found"
    return faults[0].what


def _rewritten(entries: Sequence[Entry], change: Callable[[dict[str, Any]], Any]) -> Iterator[Entry]:
    """Yield the entries of a run with a changed first record, in a chain that is in order."""
    previous = NO_DIGEST
    for entry in entries:
        record, version = read_record(entry), json.loads(entry.record)["v"]
        body = json.loads(json.dumps(record.body))
        if record.seq == 0:
            change(body)
        made = write_record(
            record.seq, previous, record.kind, canonical(body), canonical(record.note), record.at, version
        )
        previous = made.digest
        yield made


def put(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["continues"].update(fields)


def other_input(body: dict[str, Any]) -> None:
    body["inputs"]["more"] = 5


def fewer_policies(body: dict[str, Any]) -> None:
    body["policies"] = body["policies"][:1]


FORGERIES: Mapping[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a forged predecessor": (put(run="none"), "continues run `none`, which is not in this store"),
    "another predecessor": (put(run="other"), "it has another id than the continuation of run `other`"),
    "a head of before the end": (put(head="early"), "it names a head that run `run` did not have when it had ended"),
    "an invented head": (put(head="00" * 32), "it names a head that run `run` did not have"),
    "an invented number": (put(number=2), "is not number 2 of the runs that continue one another"),
    "a number that is none": (put(number="1"), "does not say in words of the format which run it continues"),
    "another reading": (put(reads={"more": "amount", "n": "n"}), "it reads `n`, which is no input of its program"),
    "reading what is not there": (put(reads={"more": "later"}), "`later` is not defined at the end of run `run`"),
    "no reading": (put(reads={}), "input `more` is missing"),
    "another value": (other_input, "its input `more` is not what `n` was at the end of run `run`"),
    "more steps than granted": (put(granted={"steps": 1}), "it may spend more than run `run` has left"),
    "no policies": (fewer_policies, "its policies are not those in which run `run` has left them"),
    "a new field": (put(more=1), "does not say in words of the format which run it continues"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_continuation_is_found(name: str) -> None:
    change, why = FORGERIES[name]
    world = World()
    world.begin(steps=6)
    world.go_on(after({"id": "e", "type": "end"}, inputs={"more": AMOUNT}), {"more": "n"})
    world.machine.run_sync(Program.from_dict({**FIRST, "max_steps": 5}), {"amount": 1, "address": "b"}, run_id="other")
    early = world.journal.read("run")[2].digest.hex()

    def changed(body: dict[str, Any]) -> None:
        change(body)
        if body["continues"]["head"] == "early":
            body["continues"]["head"] = early

    assert why in forged(world, changed)


def _thinking(count: int, **budget: int) -> Program:
    steps = [{"id": f"think_{number}", "type": "llm", "prompt": "?"} for number in range(count)]
    return Program.from_dict({"name": "thinking", "inputs": {}, "steps": steps, **budget})


@pytest.mark.parametrize("own", [{}, {"max_tokens": 100}])
@pytest.mark.parametrize("granted", [0, 2])
def test_a_run_that_asks_no_model_leaves_the_budget_of_tokens_as_it_was(own: dict[str, int], granted: int) -> None:
    model = ScriptedModel({f"think_{number}": ModelReply("well", 2) for number in range(9)})
    machine = ExecutionVM(None, model, MemoryJournal(), checker=None)
    machine.run_sync(_thinking(3, max_tokens=3), {}, run_id="r")
    steps = [{"id": f"s{number}", "type": "set", "set": {"n": number}} for number in range(2)]
    still = {"name": "still", "inputs": {}, "steps": steps, **own}
    grant = {"tokens": granted} if granted else {}
    run = machine.continue_run_sync("r", Program.from_dict({**still, "max_steps": 1}), grant=grant)
    assert (run.status, run.tokens) == ("BUDGET_EXCEEDED", 0)
    if granted:  # 3 - 4 + 2
        run = machine.continue_run_sync(run.id, _thinking(3), grant={"steps": 9})
        assert (run.status, run.reason, run.tokens) == ("BUDGET_EXCEEDED", "max_tokens", 2)
        assert not verify(machine.journal, run.id, replay=replayer(machine.journal, run.id)).faults
    else:
        with pytest.raises(RunRefused, match="no tokens are left"):
            machine.continue_run_sync(run.id, _thinking(3), grant={"steps": 9})
