"""Hostile control flow, rules, budgets and sizes."""

from __future__ import annotations

from hostile_programs.family import APPROVED, NEVER, Data, approved, end, family, is_true, paid


@family("the rules of a program, times its steps", 300, 5)
def guardrails_times_steps(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$i{one} > 5", f"a{one}", f"b{one}"),
            {"id": f"a{one}", "type": "tool", "tool": "look", "next_step": f"b{one}"},
            {"id": f"b{one}", "type": "tool", "tool": f"t{one}", "error_step": "d", "next_step": f"c{one + 1}"},
        ]
    steps.append(end(f"c{n}"))
    rules = [
        {"name": f"g{one}", "protects": {"tool": f"t{n - 1}"}, "requires": {"step": f"a{one}"}} for one in range(n)
    ]
    tools = {f"t{one}": {"effect": "write", "idempotent": True} for one in range(n)}
    return paid([*steps, end()], rules, tools=tools, inputs={f"i{one}": {"type": "integer"} for one in range(n)})


@family("conditions over booleans in a row, each of which leads past the guard or not", 200, 8)
def diamonds(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$b{one}", f"s{one}", f"c{one + 1}"),
            {"id": f"s{one}", "type": "set", "set": {"count": "$count + 1"}, "next_step": f"c{one + 1}"},
        ]
    start = {"id": "start", "type": "set", "set": {"count": 0}}
    steps = [
        start,
        *steps,
        is_true(f"c{n}", f"$count == {n // 2}", "approved", "over"),
        is_true("over", f"$count > {n}", "pay", "stop"),
    ]
    return approved(steps, {f"b{one}": {"type": "boolean"} for one in range(n)})


@family("the rounds of a loop that counts", 10_000_000, 1_000)
def a_long_count(n: int) -> Data:
    steps = [
        {"id": "start", "type": "set", "set": {"i": 0, "j": 0}},
        {"id": "turn", "type": "set", "set": {"i": "$i + 1", "j": "$j + 2"}, "next_step": "c", "max_visits": 10**9},
        is_true("c", f"$i < {n}", "turn", "right"),
        is_true("right", "$j == 2 * $i", "d", "pay"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid(steps, [NEVER])


@family("variables that a loop changes together", 12, 3)
def a_loop_of_many_counters(n: int) -> Data:
    steps: list[Data] = [{"id": "start", "type": "set", "set": {f"x{one}": one for one in range(n)}}]
    for one in range(n):
        move = {f"x{one}": f"$x{(one + 1) % n} + $x{one} - 1"}
        steps.append(is_true(f"c{one}", f"$b{one}", f"s{one}", f"c{one + 1}"))
        steps.append({"id": f"s{one}", "type": "set", "set": move, "next_step": "c0", "max_visits": 10**6})
    values = " + ".join(f"$x{one}" for one in range(n))
    steps += [
        is_true(f"c{n}", f"{values} == 1000003", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid(steps, [NEVER], inputs={f"b{one}": {"type": "boolean"} for one in range(n)})


@family("ways between steps: every step may go to every other", 250, 6)
def everything_leads_everywhere(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        cases = [{"when": f"$n == {other}", "then": f"c{other}"} for other in range(n) if other != one]
        steps.append({"id": f"c{one}", "type": "condition", "cases": cases, "otherwise": "d", "max_visits": 100})
    tail = [{"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, end()]
    return paid([*steps, *tail], [NEVER], inputs={"n": {"type": "integer"}})


@family("what may become of the parts of a parallel step", 40, 4)
def a_wide_parallel_step(n: int) -> Data:
    parts = [
        {
            "id": f"p{one}",
            "type": "tool",
            "tool": "look",
            "output_key": f"x{one}",
            "on_error": "skip",
            "on_timeout": "fallback",
            "timeout_seconds": 1,
            "fallback": 7,
        }
        for one in range(n)
    ]
    whole = {"id": "all", "type": "parallel", "parallel_steps": parts, "error_step": "d"}
    asked = " and ".join(f"defined($x{one})" for one in range(n))
    tail = [is_true("c", asked, "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, end()]
    return paid([whole, *tail], [NEVER])


@family("rules that each forbid arguments of every call", 60, 4)
def rules_about_arguments(n: int) -> Data:
    rules = [
        {"name": f"g{one}", "never": {"tool": "pay"}, "when": f"$args.sum + $args.fee * {one} > {one * one}"}
        for one in range(n)
    ]
    calls = [
        {"id": f"p{one}", "type": "tool", "tool": "pay", "args": {"sum": f"$i{one}", "fee": f"$i{(one + 1) % n}"}}
        for one in range(n)
    ]
    args = {"sum": {"type": "number"}, "fee": {"type": "number"}}
    tools = {"pay": {"effect": "write", "idempotent": True, "args": args}}
    return paid([*calls, end()], rules, tools=tools, inputs={f"i{one}": {"type": "number"} for one in range(n)})


@family("calls of which each pair is counted", 1_500, 8)
def one_tool_called_everywhere(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$n == {one}", f"p{one}", f"c{one + 1}"),
            {"id": f"p{one}", "type": "tool", "tool": "pay", "next_step": f"c{one + 1}"},
        ]
    rule = {"name": "g", "at_most_once": {"tool": "pay"}}
    return paid([*steps, end(f"c{n}"), end()], [rule], inputs={"n": {"type": "integer"}})


@family("steps after each of which something has to follow", 1_500, 8)
def one_thing_follows_many(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            {"id": f"p{one}", "type": "tool", "tool": "pay", "error_step": f"l{one}", "next_step": f"c{one}"},
            is_true(f"c{one}", f"$n > {one}", f"p{one + 1}", "d"),
            {"id": f"l{one}", "type": "tool", "tool": "look", "next_step": f"c{one}"},
        ]
    rule = {"name": "g", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}
    return paid([*steps, end(f"p{n}"), end()], [rule], inputs={"n": {"type": "integer"}})


@family("the steps of a program", 100_000, 200)
def a_long_program(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "tool", "tool": "look", "output_key": f"x{one}"} for one in range(n - 2)]
    return paid(
        [*steps, {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, end()],
        [APPROVED | {"requires": {"step": "s7"}}],
    )


@family("the conditions of a program that all read one variable", 5_000, 20)
def many_conditions_of_one_variable(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps.append(is_true(f"c{one}", f"$n > {one}", f"c{one + 1}", "d"))
    tail = [{"id": f"c{n}", "type": "tool", "tool": "pay", "next_step": "d"}, end()]
    rule = {"name": "g", "never": {"tool": "pay"}, "when": f"$n < {n // 2}"}
    return paid([*steps, *tail], [rule], inputs={"n": {"type": "integer"}})


@family("budgets that no run can use up", 10**18, 10**6)
def endless_budgets(n: int) -> Data:
    steps = [
        {
            "id": "turn",
            "type": "tool",
            "tool": "pay",
            "on_error": "retry",
            "max_retries": n,
            "max_visits": n,
            "next_step": "c",
        },
        is_true("c", "$b", "turn", "d"),
        end(),
    ]
    rule = {"name": "g", "at_most_once": {"tool": "pay"}}
    return paid(steps, [rule], inputs={"b": {"type": "boolean"}}, max_steps=n)


@family("the findings of a program", 4_000, 20)
def many_findings(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps.append({"id": f"s{one}", "type": "tool", "tool": "pay", "args": {"x": f"$nobody{one}"}})
    return paid([*steps, end()], [NEVER | {"name": f"g{one}"} for one in range(n // 100)])


@family("products of several inputs, on which a solver does not keep to its limits", 9, 3)
def cubes(n: int) -> Data:
    each = [f"$x{one} * $x{(one + 1) % n} * $x{(one + 2) % n}" for one in range(n)]
    some = " and ".join(f"{product} == {one}.5" for one, product in enumerate(each))
    steps = [
        is_true("large", f"{' + '.join(each)} > 100000007.5", "pay", "some"),
        is_true("some", some, "pay", "approved"),
    ]
    kind = {"type": "number", "minimum": -1000, "maximum": 1000}
    return approved(steps, {f"x{one}": kind for one in range(n)})
