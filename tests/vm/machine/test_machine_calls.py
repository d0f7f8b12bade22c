"""Fast: call steps: what a called program sees, its frame, its output, its errors, keys, deliveries, replays."""

from __future__ import annotations

from typing import Any

import pytest

from machines import Bench, assign, check, end, program, tool
from stepward.validator import ProgramValidator
from stepward.vm import InDoubt, Program, Run, RunRefused, Suspend
from stepward.vm.errors import ProgramError
from stepward.vm.values import freeze

NO = ValueError("no")
NUMBER = {"type": "number"}
RICH: dict[str, Any] = {"after_failure": True, "grant": {"steps": 20}}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "call", "program": "p", **more}


def called(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"inputs": {"x": NUMBER}, "steps": list(steps), **more}


def made(*steps: dict[str, Any], p: dict[str, Any], **more: Any) -> Program:
    return program(*steps, language=2, inputs={"a": {}}, programs={"p": p}, **more)


def going_on(*steps: dict[str, Any], p: dict[str, Any], **more: Any) -> Program:
    return program(*steps, **{"language": 2, "inputs": {}, "programs": {"p": p}, **more})


TWICE = (call("one", args={"x": "$a"}), call("two", args={"x": 2}), end("z", ["$one.output", "$two.output"]))


def test_each_call_has_its_own_inputs_names_and_visits() -> None:
    """The second call finds nothing of the first one: `seen` is undefined there, and `again` may be visited anew."""
    steps = (
        check("first", "defined($seen)", "bad", "again"),
        assign("again", max_visits=1, _step={"next_step": "yes"}, seen="$x"),
        end("yes", "$seen"),
        end("bad", outcome="failure"),
    )
    bench = Bench()
    run = bench.checked(bench.run(made(*TWICE, p=called(*steps)), a=1))
    assert run.output == (1, 2)
    assert [body["frame"] for body in bench.bodies("item")] == [[["one", 1, 1, 0]], [["two", 1, 1, 0]]]
    assert sorted(run.view("tool")) == ["a", "one.output", "two.output"]


def test_a_called_program_does_not_see_the_names_around_it() -> None:
    """`$a` is nothing there, although the caller has it."""
    bench = Bench()
    run = bench.run(made(*TWICE, p=called(end("e", "$a"))), a=1)
    assert (run.status, run.reason) == ("FAILED", "error")


@pytest.mark.parametrize("depth", [1, 2])
def test_what_a_parallel_step_of_a_called_program_gives_has_the_names_of_that_program(depth: int) -> None:
    """The output of a parallel step names its sub-steps and its branches as they are written there."""
    fork = {"id": "f", "type": "parallel", "branches": {"one": {"steps": [end("o", 1)]}, "two": {"steps": [end("t")]}}}
    both = {"id": "b", "type": "parallel", "parallel_steps": [tool("s")], "output_key": "all"}
    look = check("c", "$f.output.one == 1 and $all.s == 5", "e", "e")
    p: dict[str, Any] = {"inputs": {}, "steps": [fork, both, look, end("e", ["$f.output", "$all", "$all.s"])]}
    more = {"read": {"effect": "read", "returns": {"type": "integer"}}}
    if depth == 2:
        inner = {"inputs": {}, "programs": {"p": p}, "steps": [call("deep"), end("q", "$deep.output")]}
        p = {"inputs": {}, "programs": {"r": inner}, "steps": [{**call("in"), "program": "r"}, end("w", "$in.output")]}
    made_of = going_on(call("c"), end("z", "$c.output"), p=p, tools=more)
    bench = Bench({"read": 5})
    run = bench.checked(bench.run(made_of))
    assert run.output == ({"one": 1, "two": None}, {"s": 5}, 5)
    assert not ProgramValidator(made_of).validate().errors


def test_defaults_and_constants_are_arguments_too() -> None:
    p = {"inputs": {"x": {"default": "$5"}, "y": {}}, "steps": [end("e", ["$x", "$y"])]}
    run = Bench().run(made(call("c", args={"y": {"k": ["$a", 'it\'s \\ "q"']}}), end("z", "$c.output"), p=p), a=7)
    assert run.output == ("$5", {"k": (7, 'it\'s \\ "q"')})


@pytest.mark.parametrize("default", [["$a"], {"k": ["$x $y", {"l": "$$"}]}, ["$nowhere", "$"], {"k": "B$$", "$": 1}])
def test_a_default_with_dollar_signs_stands_for_itself(default: Any) -> None:
    """As it does where the program runs alone: nothing in it is a reference, not even to what is around the call."""
    p = {"inputs": {"x": {"default": default}, "y": {"default": 1}}, "steps": [end("e", "$x")]}
    called_one = Bench().run(made(call("c"), end("z", "$c.output"), p=p), a=7)
    alone = Bench().run(program(*p["steps"], language=2, inputs=p["inputs"]))
    assert called_one.output == alone.output == freeze(default)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"x": "text"}, '`c` can\'t start: `x`: must be a number, not `"text"`'),
        ({}, "`c` can't start: `x` is missing"),
        ({"x": 1, "y": 2}, "`c` can't start: `y` is not declared"),
    ],
)
def test_arguments_that_do_not_fit_are_bad_arguments_without_retries(args: dict[str, Any], why: str) -> None:
    p = called(tool("t", "write"), end("e"))
    step = call("c", args=args, on_error="retry", max_retries=3, catch=[{"errors": ["BadArguments"], "then": "z"}])
    bench = Bench()
    run = bench.checked(bench.run(made(step, end("y"), end("z", "$c.error"), p=p), a="text"))
    assert run.output == why
    assert bench.tools.asked == []


def test_an_output_that_the_caller_can_not_take_is_bad_output() -> None:
    for more, condition in (({"returns": NUMBER}, "true"), ({}, "$c.output > 3")):
        step = call("c", args={"x": 1}, error_step="z", **more)
        bench = Bench()
        steps = (step, check("t", condition, "y", "y"), end("y"), end("z", "$c.error_name"))
        run = bench.checked(bench.run(made(*steps, p=called(end("e", "text"))), a=1))
        assert run.output == "BadOutput"


def test_a_program_without_an_output_gives_none() -> None:
    steps = (call("c", args={"x": 1}, output_key="v"), check("t", "defined($v)", "y", "z"), end("y"), end("z", "none"))
    assert Bench({"read": 1}).run(made(*steps, p=called(tool("t"))), a=1).output == "none"


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ((tool("t", "read"), end("e")), "Unexpected"),
        ((end("e", outcome="failure"),), "Declared"),
        ((check("c", "$x > 5", "e", None), end("e")), "Uncovered"),
        ((check("c", "$x > 'a'", "e", "e"), end("e")), "BadValue"),
        ((end("e", "$nothing"),), "Undefined"),
    ],
)
def test_a_program_that_fails_fails_the_call_by_name(steps: tuple[dict[str, Any], ...], name: str) -> None:
    bench = Bench({"read": NO})
    top = (call("c", args={"x": 1}, error_step="z"), end("y"), end("z", "$c.error_name"))
    assert bench.checked(bench.run(made(*top, p=called(*steps)), a=1)).output == name


def test_a_round_of_retries_starts_with_the_same_inputs() -> None:
    steps = (assign("s", v="$x + 1"), tool("t", args={"v": "$v"}), end("e", "$v"))
    bench = Bench({"read": [NO, 1]})
    run = bench.checked(
        bench.run(made(call("c", args={"x": 1}, on_error="retry"), end("z", "$c.output"), p=called(*steps)), a=1)
    )
    assert run.output == 2
    assert [one.args["v"] for one in bench.tools.asked] == [2, 2]
    assert len(set(bench.tools.keys("c/t"))) == 2  # a round is a new performance


def test_keys_differ_between_calls_of_one_program() -> None:
    bench = Bench()
    bench.run(made(*TWICE, p=called(tool("t", "again"), end("e"))), a=1)
    assert bench.tools.steps() == ["one/t", "two/t"]
    assert len({*bench.tools.keys("one/t"), *bench.tools.keys("two/t")}) == 2


# -- budgets and rules -------------------------------------------------------------------------------------------------


def test_budgets_are_those_of_the_run() -> None:
    """A budget does not start again in a call: two calls of two steps each, and the calls themselves."""
    p = called(assign("s", v=1), end("e"))
    assert Bench().run(made(*TWICE[:2], p=p, max_steps=6), a=1).status == "SUCCESS"
    assert Bench().run(made(*TWICE[:2], p=p, max_steps=5), a=1).status == "BUDGET_EXCEEDED"


def test_a_guardrail_of_the_caller_sees_the_steps_of_called_programs() -> None:
    for rule in ({"at_most_once": {"tool": "write"}}, {"exclusive": [{"step": "one/t"}, {"step": "two/t"}]}):
        bench = Bench()
        run = bench.run(made(*TWICE, p=called(tool("t", "write"), end("e")), guardrails=[{"name": "r", **rule}]), a=1)
        assert (run.status, run.reason) == ("FAILED", "guardrail")
        assert bench.tools.steps() == ["one/t"]


def test_a_guardrail_of_a_called_program_holds_for_each_call_alone() -> None:
    p = called(tool("t", "write"), end("e"), guardrails=[{"name": "r", "at_most_once": {"tool": "write"}}])
    assert Bench().run(made(*TWICE, p=p), a=1).status == "SUCCESS"
    p["steps"].insert(1, tool("t2", "write"))
    bench = Bench()
    assert bench.run(made(*TWICE, p=p), a=1).reason == "guardrail"
    assert bench.tools.steps() == ["one/t"]


def test_a_condition_of_a_rule_reads_the_names_of_its_own_program() -> None:
    p = called(tool("t", "write"), end("e"), guardrails=[{"name": "r", "never": {"tool": "write"}, "when": "$x > 1"}])
    bench = Bench()
    run = bench.run(made(*TWICE, p=p), a=1)
    assert (run.reason, bench.tools.steps()) == ("guardrail", ["one/t"])


# -- waiting, doubt, crashes -------------------------------------------------------------------------------------------


def test_a_called_program_that_waits_is_resumed_by_its_own_token() -> None:
    bench = Bench({"asks": Suspend("well?")})
    run = bench.run(made(*TWICE, p=called(tool("t", "asks"), end("e", "$t.output"))), a=1)
    tokens = []
    for number, name in enumerate(("one", "two")):
        assert [(one.step, one.frame) for one in run.suspensions] == [(f"{name}/t", ((name, 1, 1, 0),))]
        tokens.append(run.suspensions[0].token)
        run = bench.resume(run, f"yes {number}")
    assert (run.output, len(set(tokens))) == (("yes 0", "yes 1"), 2)
    bench.checked(run)


def test_a_called_program_waits_as_long_as_its_own_inputs_say() -> None:
    """`seconds` and `until` read names of the called program, not those of the caller, which has `x` too."""
    for field, said, given in (("seconds", "$x", (60, 7_200)), ("until", "2033-05-18T0$x:33:20Z", (3, 4))):
        bench, dues = Bench({"read": 1}), []
        p = called({"id": "w", "type": "wait", field: said}, tool("t"), end("e", "$x"))
        calls = [call(f"c{number}", args={"x": one}) for number, one in enumerate(given)]
        began = bench.clock.time
        run = bench.run(made(assign("own", x="0"), *calls, end("z", "$x"), p=p), a=0)
        for number in range(2):
            assert (run.status, run.step) == ("SUSPENDED", f"c{number}/w")
            assert bench.tools.steps() == [f"c{one}/t" for one in range(number)]
            dues.append(int((run.due or 0) * 1_000_000))
            bench.clock.time = dues[-1]
            bench.vm.recover_all_sync()
            run = bench.checked(bench.vm.get_sync("run"))
        assert (run.status, run.output) == ("SUCCESS", 0)
        lasted = [(dues[0] - began) // 1_000_000, (dues[1] - dues[0]) // 1_000_000]
        assert lasted == ([60, 7_200] if field == "seconds" else [(2_000_000_000_000_000 - began) // 1_000_000, 3_600])


def test_a_write_in_doubt_is_reconciled_inside_its_call() -> None:
    bench = Bench({"write": [1, InDoubt("gone")]})
    run = bench.run(made(*TWICE, p=called(tool("t", "write"), end("e", "$t.output"))), a=1)
    assert [one.step for one in run.doubts] == ["two/t"]
    run = bench.checked(bench.vm.reconcile_sync("run", "two/t", "done", 2))
    assert run.output == (1, 2)


def test_a_secret_keeps_its_mark_in_a_called_program_and_behind_it() -> None:
    """What the caller marks is marked in the program, and what the program marks is marked in its output."""
    for where in ("caller", "program"):
        mark = {"type": "string", "sensitive": True}
        plain = {"type": "string"}
        p = {
            "inputs": {"x": mark if where == "program" else plain},
            "steps": [tool("t", args={"v": "$x"}), end("e", "$x")],
        }
        steps = (call("c", args={"x": "$a"}), {"id": "l", "type": "llm", "prompt": "say $c.output", "on_error": "skip"})
        bench = Bench({"read": 1})
        whole = program(
            *steps,
            end("z", "$l.error"),
            language=2,
            inputs={"a": mark if where == "caller" else plain},
            programs={"p": p},
        )
        run = bench.checked(bench.run(whole, a="4111-1111"))
        assert run.output == "a sensitive value would reach the prompt of `l`"
        assert bench.tools.asked[0].args["v"] == "4111-1111"
        written = [entry.record.decode() for entry in bench.journal.read("run")]
        assert not any("4111-1111" in one for one in written[(where == "program") :])


def test_a_called_program_marks_parts_beside_those_that_are_sensitive_already() -> None:
    """Each part of what a call gives is sensitive by itself, or by the type of the input, or by both."""
    secret, text = {"type": "string", "sensitive": True}, {"type": "string"}
    pair = {"type": "object", "properties": {"a": secret, "b": text}, "required": ["a", "b"]}
    specs = [{"type": "array", "sensitive": True}, {"type": "array", "items": secret}, {"type": "array", "items": pair}]
    for spec in specs:
        given: Any = [{"a": "$t", "b": "$h"}] if spec.get("items") == pair else ["$h", "$t"]
        p = {"inputs": {"x": spec}, "steps": [end("e", "$x")]}
        whole = program(call("c", args={"x": given}), language=2, inputs={"h": secret, "t": text}, programs={"p": p})
        bench = Bench({})
        run = bench.checked(bench.run(whole, h="hidden", t="shown"))
        assert "shown" in str(run.view("tool")["c.output"])
        assert "shown" not in str(run.view("trace")["c.output"])
        assert not any(b"shown" in one.record for one in bench.journal.read("run")[1:])


@pytest.mark.parametrize("gives", ["$a", "paid to 4111-1111, at once"])
def test_what_a_called_program_marks_is_found_where_it_comes_back(gives: str) -> None:
    """A value that only the type of its input marks is a sensitive value of the run."""
    mark = {"type": "object", "properties": {"x": {"type": "string", "sensitive": True}}}
    p = {"inputs": {"o": mark}, "steps": [tool("t"), end("e", "$t.output")]}
    whole = program(
        call("c", args={"o": {"x": "$a"}}),
        tool("u"),
        language=2,
        inputs={"a": {"type": "string"}},
        programs={"p": p},
    )
    said = "4111-1111" if gives == "$a" else gives
    bench = Bench({"read": [said, said]})
    run = bench.checked(bench.run(whole, a="4111-1111"))
    assert run.view("trace")["u.output"] == run.view("trace")["c.output"] == "[sensitive]"
    assert not any(b"4111-1111" in one.record for one in bench.journal.read("run")[1:])


# -- calls in bodies, bodies in calls, calls in calls ------------------------------------------------------------------


def test_calls_bodies_and_calls_within_one_another() -> None:
    inner = {"inputs": {"y": NUMBER}, "steps": [tool("t", args={"v": "$y"}), assign("s", v="$y + 1"), end("e", "$v")]}
    each = {"id": "each", "type": "for_each", "items": ["$x", 10], "as": "item", "max_items": 2}
    body = {"id": "d", "type": "call", "program": "q", "args": {"y": "$item"}}
    p = called({**each, "steps": [body, end("f", "$d.output")]}, end("e", "$each.output"), programs={"q": inner})
    top = {"id": "top", "type": "for_each", "items": [1, 2], "as": "n", "max_items": 2}
    both = {
        "id": "par",
        "type": "parallel",
        "branches": {"b": {"steps": [call("k", args={"x": 5}), end("g", "$k.output")]}},
    }
    bench = Bench({"read": 0})
    steps = (
        {**top, "steps": [call("c", args={"x": "$n"}), end("h", "$c.output")]},
        both,
        end("z", ["$top.output", "$b.output"]),
    )
    run = bench.checked(bench.run(made(*steps, p=p), a=0))
    assert run.output == (((2, 11), (3, 11)), (6, 11))
    assert bench.tools.steps()[:2] == ["c/d/t"] * 2
    assert bench.tools.steps()[-2:] == ["k/d/t"] * 2
    assert len({one.key for one in bench.tools.asked}) == 6


# -- documents ---------------------------------------------------------------------------------------------------------


def test_the_digest_covers_the_called_program() -> None:
    one, two = (made(*TWICE, p=called(end("e", value))) for value in (1, 2))
    bench = Bench()
    bench.run(one, "a", a=1)
    bench.run(two, "b", a=1)
    first, second = (bench.bodies("started", run)[0]["program"] for run in "ab")
    assert first != second
    assert Program.from_dict(one.to_dict()) == one


def test_a_run_that_was_interrupted_in_a_call_goes_on_with_its_rules_and_writes() -> None:
    """What a step of a call has done counts for the rules of the caller; its writes are not made again."""
    p = called(tool("t", "write", args={"v": "$x"}), tool("u", "again", args={"v": "$x"}), end("e"))
    for rules in ([{"name": "r", "at_most_once": {"step": "two/t"}}], []):
        bench = Bench()
        run = bench.checked(bench.run(made(*TWICE, p=p, guardrails=rules, max_steps=6), a=1))
        performed = ["one/t", "one/u", "two/t"]
        assert (run.status, run.step, bench.tools.steps()) == ("BUDGET_EXCEEDED", "two/u", performed)

        def go_on(name: str, x: int, before: str = "run", bench: Bench = bench) -> Run:
            whole = going_on({**call(name), "args": {"x": x}}, p=p)
            return bench.checked(bench.vm.continue_run_sync(before, whole, {}, **RICH))

        if rules:
            assert "guardrail `r` forbids `two/t` to start" in go_on("two", 9).error
            with pytest.raises(
                RunRefused, match="guardrail `r` of run `run` is about `two/t`, and `new/t` calls `write`"
            ):
                go_on("new", 7, "run~1")
            assert bench.tools.steps() == performed
        else:
            repeated = go_on("new", 2)
            assert "a run before this one, from `run` on, has called tool `write` in this way" in repeated.error
            assert go_on("new", 7, "run~1").status == "SUCCESS"
            assert bench.tools.steps() == [*performed, "new/t", "new/u"]


def test_a_continuation_takes_no_harm_from_a_tool_in_a_called_program() -> None:
    """What a called program said of a tool holds for what goes on, and a called program of that says nothing else."""
    tools = {"write": {"effect": "write", "idempotent": False, "args": {"v": NUMBER}}}
    p = called(tool("t", "write", args={"v": 1}), tool("u", "write", args={"v": 2}), tools=tools)
    bench = Bench({"write": 1})
    whole = Program.from_dict(
        {"name": "bare", "language": 2, "programs": {"p": p}, "steps": [call("c", args={"x": 1})]}
    )
    bench.run(whole.model_copy(update={"max_steps": 2}))
    for wrong in ({"v": {"type": "string"}}, {}):
        inner = {**p, "tools": {"write": {"args": wrong}}}
        other = whole.model_copy(update={"programs": made(*TWICE, p=inner).programs})
        with pytest.raises(RunRefused, match="says something else about the `args` of `write`"):
            bench.vm.continue_run_sync("run", other, {}, **RICH)
    text = called(tool("t", "write", args={"v": "text"}))
    again = bench.vm.continue_run_sync("run", going_on(call("c", args={"x": 1}), p=text, tools=None), {}, **RICH)
    assert "`v`: must be a number" in again.error
    assert len(bench.tools.asked) == 1


def test_a_move_of_a_program_that_calls_is_refused_in_words() -> None:
    bench = Bench({"asks": Suspend("well?")})
    whole = made(tool("q", "asks"), *TWICE, p=called(end("e")))
    bench.run(whole, a=1)
    with pytest.raises(RunRefused, match="moves to a version with `programs` are not supported yet"):
        bench.vm.migrate_sync("run", whole, by="ada")


def test_a_program_that_a_machine_can_not_run_is_refused() -> None:
    with pytest.raises(ProgramError, match="SW101"):
        Bench().run(made(*TWICE, p=called(end("e"), {**tool("t"), "next_step": "nowhere"})), a=1)
