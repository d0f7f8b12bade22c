"""Hostile names: unknown ones, sources, copies, fields."""

from __future__ import annotations

from hostile_programs.family import NEVER, Data, asked, end, family, is_true, paid


@family("names that are read and nobody writes, times the names that may have been meant", 3_000, 20)
def misspelt_names(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {f"known_name_{one}": f"$knwon_name_{one}"}} for one in range(n)]
    return {"steps": [*steps, end()]}


@family("steps that branches lead to and nobody wrote, times the steps that may have been meant", 3_000, 20)
def misspelt_targets(n: int) -> Data:
    steps = [
        {"id": f"step_number_{one}", "type": "set", "set": {"x": 1}, "next_step": f"setp_number_{one}"}
        for one in range(n)
    ]
    return {"steps": steps}


@family("the sources of a variable, times the conditions that read it", 3_000, 15)
def a_variable_of_many_sources(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            {"id": f"s{one}", "type": "tool", "tool": f"t{one}", "output_key": "x", "next_step": f"c{one}"},
            is_true(f"c{one}", f"$x == {one}", f"s{one + 1}", "d"),
        ]
    tools = {f"t{one}": {"effect": "read", "returns": {"type": "integer", "minimum": one}} for one in range(n)}
    return {"tools": tools, "steps": [*steps, end(f"s{n}"), end()]}


@family("the names through which a value is copied", 3_000, 15)
def copies_of_copies(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}} for one in range(n)]
    tail = [
        is_true("c", f"$x{n} > 5 and $x0 < 5", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid([*steps, *tail], [NEVER], inputs={"x0": {"type": "integer"}})


@family("variables that copy one another in a circle, under a loop", 60, 5)
def copies_in_a_circle(n: int) -> Data:
    turn = {f"x{one}": f"$x{(one + 1) % n}" for one in range(n)}
    steps = [
        {"id": "start", "type": "set", "set": {f"x{one}": f"$i{one}" for one in range(n)}},
        {"id": "turn", "type": "set", "set": turn, "next_step": "again", "max_visits": 1_000_000},
        is_true("again", "$x0 > $x1 + $x2", "turn", "c"),
        is_true("c", f"$x0 == $x{n - 1} + 1", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid(steps, [NEVER], inputs={f"i{one}": {"type": "integer"} for one in range(n)})


@family("the fields of an object", 5_000, 30)
def a_wide_object(n: int) -> Data:
    kind = {"type": "object", "properties": {f"f{one}": {"type": "integer"} for one in range(n)}}
    steps = [is_true(f"c{one}", f"defined($o.f{one}) and $o.f{one} > 3", "d", f"c{one + 1}") for one in range(n // 2)]
    return {"inputs": {"o": kind}, "steps": [*steps, end(f"c{n // 2}"), end()]}


@family("the depth of an object's type", 30, 10)
def a_deep_object(n: int) -> Data:
    kind: Data = {"type": "integer"}
    for one in range(n):
        kind = {"type": "object", "properties": {f"f{one}": kind, f"g{one}": {"type": "string"}}}
    path = ".".join(f"f{one}" for one in reversed(range(n)))
    return asked(f"defined($o.{path}) and $o.{path} > 3", o=kind)


@family("copies that each come from two places: two to the number of them ways lead back", 400, 8)
def copies_from_two_places(n: int) -> Data:
    return _copies(n, "d")


@family("copies that each come from two places, in a loop", 200, 8)
def copies_in_a_loop(n: int) -> Data:
    return _copies(n, "again")


def _copies(n: int, after: str) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x0": "$text"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$b{one}", f"s{one}", f"t{one}"),
            {"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}, "next_step": f"c{one + 1}"},
            {"id": f"t{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}, "next_step": f"c{one + 1}"},
        ]
    steps += [
        is_true(f"c{n}", f"$x{n} starts_with 'y'", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"text": f"$x{n}"}, "next_step": after},
        end(),
    ]
    again: Data = {"id": "again", "type": "set", "set": {"x0": f"$x{n}"}, "next_step": "c0", "max_visits": 3}
    steps += [again] if after == "again" else []
    inputs = {"text": {"type": "string"}, **{f"b{one}": {"type": "boolean"} for one in range(n)}}
    return paid(steps, [NEVER], inputs=inputs)


@family("fields of fields that copies ask for: two to the number of copies paths", 60, 6)
def copies_of_one_of_two_fields(n: int) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x0": "$tree"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$b{one}", f"s{one}", f"t{one}"),
            {"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}.p"}, "next_step": f"c{one + 1}"},
            {"id": f"t{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}.q"}, "next_step": f"c{one + 1}"},
        ]
    tail = [is_true(f"c{n}", f"$x{n} == 5", "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}]
    inputs = {"tree": {"type": "object"}, **{f"b{one}": {"type": "boolean"} for one in range(n)}}
    return paid([*steps, *tail, end()], [NEVER], inputs=inputs)


@family("fields of fields that copies in a loop ask for", 60, 6)
def a_walk_down_a_tree(n: int) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x": "$tree"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            is_true(f"c{one}", f"$n == {one}", f"s{one}", f"c{one + 1}"),
            {"id": f"s{one}", "type": "set", "set": {"x": f"$x.f{one}"}, "next_step": "c0", "max_visits": 1_000},
        ]
    tail = [is_true(f"c{n}", "$x == 5", "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}]
    inputs = {"tree": {"type": "object"}, "n": {"type": "integer"}}
    return paid([*steps, *tail, end()], [NEVER], inputs=inputs)
