"""Small programs, each of which makes another part of a check blow up that is not bounded.

Each is a family: `make(n)` is the program of that size as data, `size` the size at which it is measured, `small` one
that takes little time whatever is done with it, and `blows_up` what grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

Data = dict[str, Any]

NAMED: Final[dict[str, Hostile]] = {}


@dataclass(frozen=True)
class Hostile:
    """A family of programs."""

    name: str
    blows_up: str
    make: Callable[[int], Data]
    size: int
    small: int

    def program(self, n: int | None = None) -> Data:
        """Return the program of size n, or the one that is measured."""
        return self.make(self.size if n is None else n)


def _family(blows_up: str, size: int, small: int) -> Callable[[Callable[[int], Data]], Callable[[int], Data]]:
    def add(make: Callable[[int], Data]) -> Callable[[int], Data]:
        name = make.__name__.removesuffix("_").replace("_", " ")
        NAMED[name] = Hostile(name, blows_up, make, size, small)
        return make

    return add


def _end(name: str = "d") -> Data:
    return {"id": name, "type": "end"}


def _is(name: str, condition: str, then: str, otherwise: str) -> Data:
    return {"id": name, "type": "condition", "condition": condition, "then": then, "otherwise": otherwise}


def _asked(condition: str, **inputs: Data) -> Data:
    """Return a program with one condition."""
    return {"inputs": inputs, "steps": [_is("c", condition, "d", "e"), _end("d"), _end("e")]}


def _cases(whens: list[str], inputs: Data, **more: Any) -> Data:
    cases = [{"when": when, "then": "d"} for when in whens]
    step = {"id": "c", "type": "condition", "cases": cases, "otherwise": "d", **more}
    return {"inputs": inputs, "steps": [{key: value for key, value in step.items() if value is not None}, _end()]}


def _paid(steps: list[Data], rules: list[Data], **more: Any) -> Data:
    """Return a program with rules over a tool that pays."""
    tools = {"pay": {"effect": "write", "idempotent": True}, "look": {"effect": "read"}}
    return {"tools": {**tools, **more.pop("tools", {})}, "guardrails": rules, "steps": steps, **more}


NEVER: Final = {"name": "g", "never": {"tool": "pay"}}
APPROVED: Final = {"name": "g", "protects": {"tool": "pay"}, "requires": {"step": "approved", "branch": "then"}}


def _approved(steps: list[Data], inputs: Data) -> Data:
    """Return a program that pays behind an approval, once it has come through the given steps to `approved`."""
    tail = [
        _is("approved", "$yes", "pay", "stop"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"},
        _end("stop"),
    ]
    return _paid([*steps, *tail], [APPROVED], inputs={"yes": {"type": "boolean"}, **inputs})


# -- enums, cases, literals --------------------------------------------------------------------------------------------


@_family("the members of an enum", 200_000, 300)
def enum_that_nobody_reads(n: int) -> Data:
    return {"inputs": {"s": {"enum": [f"v{one}" for one in range(n)]}}, "steps": [_end()]}


@_family("the members of an enum, times the conditions that ask for one", 20_000, 60)
def enum_asked_by_conditions(n: int) -> Data:
    steps = [_is(f"c{one}", f"$s == 'v{one}'", "d", f"c{one + 1}") for one in range(n // 20)]
    return {"inputs": {"s": {"enum": [f"v{one}" for one in range(n)]}}, "steps": [*steps, _end(f"c{n // 20}"), _end()]}


@_family("pairs of members of two enums", 5_000, 40)
def two_enums_compared(n: int) -> Data:
    kind = {"enum": [f"v{one}" for one in range(n)]}
    return _asked("$a == $b", a=kind, b={"enum": [*kind["enum"][1:], "w"]})


@_family("the members of an enum that a list names one by one", 20_000, 60)
def enum_in_a_list(n: int) -> Data:
    members = [f"v{one}" for one in range(n)]
    return _asked(f"$s in [{', '.join(map(repr, members[: n // 2]))}]", s={"enum": members})


@_family("objects in an enum, none of which can be hashed by itself", 5_000, 60)
def enum_of_objects(n: int) -> Data:
    return {"inputs": {"s": {"enum": [{"at": one, "of": [one]} for one in range(n)]}}, "steps": [_end()]}


@_family("members of an enum against the type beside it", 20_000, 60)
def enum_of_which_none_is_of_its_type(n: int) -> Data:
    return {"inputs": {"s": {"type": "integer", "enum": [f"v{one}" for one in range(n)]}}, "steps": [_end()]}


@_family("texts that are compared with an enum, each in vain: what was meant is looked for", 4_000, 30)
def texts_that_no_enum_has(n: int) -> Data:
    kind = {"enum": [f"member-number-{one}" for one in range(n)]}
    return _cases([f"$s == 'membre-nombre-{one}'" for one in range(n // 10)], {"s": kind})


@_family("cases over one integer", 5_000, 40)
def cases_of_an_integer(n: int) -> Data:
    return _cases([f"$n == {one}" for one in range(n)], {"n": {"type": "integer"}})


@_family("pairs of cases over one integer, which shall exclude one another", 2_000, 30)
def exclusive_cases(n: int) -> Data:
    whens = [f"$n >= {one} and $n < {one + 1}" for one in range(n)]
    return _cases(whens, {"n": {"type": "integer"}}, exclusive=True)


@_family("overlapping cases over sums: each pair is for the solver", 60, 6)
def exclusive_cases_of_sums(n: int) -> Data:
    whens = [f"$x + {one} * $y > $z + {one * one}" for one in range(n)]
    return _cases(whens, {name: {"type": "integer"} for name in "xyz"}, exclusive=True, otherwise=None)


@_family("literals that are looked for in one text", 3_000, 6)
def cases_that_look_into_a_text(n: int) -> Data:
    return _cases([f"$s contains 'part {one}.'" for one in range(n)], {"s": {"type": "string"}})


@_family("2 to the number of literals that a text may hold together, its length asked as well", 40, 5)
def literals_and_a_length(n: int) -> Data:
    inside = " and ".join(f"($s contains 'x{one}' or $s ends_with '{one}y')" for one in range(n))
    return _asked(f"{inside} and len($s) < {3 * n}", s={"type": "string"})


@_family("pairs of texts that are compared with one another", 60, 5)
def texts_compared_with_one_another(n: int) -> Data:
    pairs = [f"$s{one} == $s{(one * 7 + 3) % n}" for one in range(n)]
    whens = [f"{pair} and $s{one} contains 'p{one}'" for one, pair in enumerate(pairs)]
    return _cases(whens, {f"s{one}": {"type": "string"} for one in range(n)}, otherwise=None)


@_family("literals of a list, times the items of the list that it is held against", 3_000, 20)
def a_list_against_an_enum_of_items(n: int) -> Data:
    kind = {"type": "array", "items": {"enum": [f"v{one}" for one in range(n)]}}
    whens = [f"$l contains 'v{one}'" for one in range(n // 10)]
    return _cases([*whens, "len($l) > 3"], {"l": kind}, otherwise=None)


# -- texts, numbers ----------------------------------------------------------------------------------------------------


@_family("the length of a text", 1_000_000_000, 10_000)
def a_long_text_is_forbidden(n: int) -> Data:
    rule = {"name": "g", "never": {"tool": "pay"}, "when": f"len($s) > {n}"}
    return _paid([{"id": "p", "type": "tool", "tool": "pay"}], [rule], inputs={"s": {"type": "string"}})


@_family("the exponent of a length", 20, 20)
def a_length_of_more_than_there_is(n: int) -> Data:
    return _asked(f"len($s) < 1e{n} and len($l) > 1e{n // 2}", s={"type": "string"}, l={"type": "array"})


@_family("the length of a list", 100_000_000, 100_000_000)
def a_long_list(n: int) -> Data:
    return _asked(f"len($l) > {n}", l={"type": "array", "items": {"type": "object"}})


@_family("the most code points of a type", 999_999_999, 999_999_999)
def a_type_of_long_texts(n: int) -> Data:
    kind = {"type": "string", "maxLength": n}
    whens = [f"len($s) == {n}", f"len($s) > {n - 1}", f"$s starts_with 'x' and len($s) > {n // 2}"]
    return _cases(whens, {"s": kind}, otherwise=None)


@_family("the exponent of a number", 999, 999)
def numbers_with_long_exponents(n: int) -> Data:
    whens = [f"$n > 1e{n}", f"$n < -1e{n}", f"$n == 1e-{n}", f"$n * 1e{n} > 1e-{n}"]
    return _cases(whens, {"n": {"type": "number"}}, otherwise=None)


@_family("the exponent of a number that nobody can write out", 999_999_999, 999_999_999)
def a_number_with_a_hostile_exponent(n: int) -> Data:
    return _asked(f"$n > 1e{n} or $n < 1e-{n}", n={"type": "number"})


@_family("the digits of numbers that are multiplied again and again", 60, 12)
def a_square_of_squares(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {"x": "$x * $x" if one else "$n"}} for one in range(n)]
    tail = [
        _is("c", "$x > 1000003", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid([*steps, *tail], [NEVER], inputs={"n": {"type": "integer", "minimum": 2, "maximum": 9}})


@_family("the factors of a number", 14, 6)
def a_number_to_factor(n: int) -> Data:
    number = (10**n + 37) * (10**n + 99)
    kind = {"type": "integer", "minimum": 2}
    steps = [
        _is("c", f"$p * $q == {number} and $p < $q", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid(steps, [NEVER], inputs={"p": kind, "q": kind})


@_family("the subsets of numbers of which one has a certain sum", 60, 8)
def a_sum_of_some(n: int) -> Data:
    terms = " + ".join(f"{(one * 7919 + 104729) ** 3} * $x{one}" for one in range(n))
    kind = {"type": "integer", "minimum": 0, "maximum": 1}
    return _asked(f"{terms} == {10**16 + 7}", **{f"x{one}": kind for one in range(n)})


@_family("pigeons that do not fit into their holes", 11, 2)
def pigeons(n: int) -> Data:
    inputs = {f"p{a}_{b}": {"type": "boolean"} for a in range(n + 1) for b in range(n)}
    housed = [f"({' or '.join(f'$p{a}_{b}' for b in range(n))})" for a in range(n + 1)]
    alone = [f"not ($p{a}_{b} and $p{c}_{b})" for b in range(n) for a, c in combinations(range(n + 1), 2)]
    steps = [
        _is("c", " and ".join(housed + alone), "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid(steps, [NEVER], inputs=inputs)


@_family("numbers that are compared in a ring", 150, 6)
def numbers_in_a_ring(n: int) -> Data:
    steps = [_is(f"c{one}", f"$x{one} * 3 < $x{(one + 1) % n} * 2", f"c{one + 1}", "d") for one in range(n)]
    tail = [{"id": f"c{n}", "type": "tool", "tool": "pay", "next_step": "d"}, _end()]
    kind = {"type": "number", "minimum": 1}
    return _paid([*steps, *tail], [NEVER], inputs={f"x{one}": kind for one in range(n)})


# -- expressions -------------------------------------------------------------------------------------------------------


@_family("the operands of one condition", 20_000, 100)
def a_long_condition(n: int) -> Data:
    return _asked(" or ".join(f"$n == {one}" for one in range(n)), n={"type": "integer"})


@_family("the references of one condition", 3_000, 20)
def a_condition_over_many_inputs(n: int) -> Data:
    return _asked(" and ".join(f"$b{one}" for one in range(n)), **{f"b{one}": {"type": "boolean"} for one in range(n)})


@_family("the nesting of one condition", 15, 15)
def a_deep_condition(n: int) -> Data:
    text = "$b"
    for one in range(n):
        text = f"not ({text} and $n > {one})"
    return _asked(text, b={"type": "boolean"}, n={"type": "integer"})


@_family("the terms of a sum", 10_000, 50)
def a_long_sum(n: int) -> Data:
    return _asked(f"{' + '.join(f'{one} * $n' for one in range(n))} > 7", n={"type": "integer"})


@_family("the references in a prompt", 20_000, 50)
def a_long_prompt(n: int) -> Data:
    inputs = {f"i{one}": {"type": "string"} for one in range(n // 20)}
    text = " ".join(f"$i{one % (n // 20)} and" for one in range(n))
    return {"inputs": inputs, "steps": [{"id": "a", "type": "llm", "prompt": text}, _end()]}


# -- names -------------------------------------------------------------------------------------------------------------


@_family("names that are read and nobody writes, times the names that may have been meant", 3_000, 20)
def misspelt_names(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {f"known_name_{one}": f"$knwon_name_{one}"}} for one in range(n)]
    return {"steps": [*steps, _end()]}


@_family("steps that branches lead to and nobody wrote, times the steps that may have been meant", 3_000, 20)
def misspelt_targets(n: int) -> Data:
    steps = [
        {"id": f"step_number_{one}", "type": "set", "set": {"x": 1}, "next_step": f"setp_number_{one}"}
        for one in range(n)
    ]
    return {"steps": steps}


@_family("the sources of a variable, times the conditions that read it", 3_000, 15)
def a_variable_of_many_sources(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            {"id": f"s{one}", "type": "tool", "tool": f"t{one}", "output_key": "x", "next_step": f"c{one}"},
            _is(f"c{one}", f"$x == {one}", f"s{one + 1}", "d"),
        ]
    tools = {f"t{one}": {"effect": "read", "returns": {"type": "integer", "minimum": one}} for one in range(n)}
    return {"tools": tools, "steps": [*steps, _end(f"s{n}"), _end()]}


@_family("the names through which a value is copied", 3_000, 15)
def copies_of_copies(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}} for one in range(n)]
    tail = [
        _is("c", f"$x{n} > 5 and $x0 < 5", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid([*steps, *tail], [NEVER], inputs={"x0": {"type": "integer"}})


@_family("variables that copy one another in a circle, under a loop", 60, 5)
def copies_in_a_circle(n: int) -> Data:
    turn = {f"x{one}": f"$x{(one + 1) % n}" for one in range(n)}
    steps = [
        {"id": "start", "type": "set", "set": {f"x{one}": f"$i{one}" for one in range(n)}},
        {"id": "turn", "type": "set", "set": turn, "next_step": "again", "max_visits": 1_000_000},
        _is("again", "$x0 > $x1 + $x2", "turn", "c"),
        _is("c", f"$x0 == $x{n - 1} + 1", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid(steps, [NEVER], inputs={f"i{one}": {"type": "integer"} for one in range(n)})


@_family("the fields of an object", 5_000, 30)
def a_wide_object(n: int) -> Data:
    kind = {"type": "object", "properties": {f"f{one}": {"type": "integer"} for one in range(n)}}
    steps = [_is(f"c{one}", f"defined($o.f{one}) and $o.f{one} > 3", "d", f"c{one + 1}") for one in range(n // 2)]
    return {"inputs": {"o": kind}, "steps": [*steps, _end(f"c{n // 2}"), _end()]}


@_family("the depth of an object's type", 30, 10)
def a_deep_object(n: int) -> Data:
    kind: Data = {"type": "integer"}
    for one in range(n):
        kind = {"type": "object", "properties": {f"f{one}": kind, f"g{one}": {"type": "string"}}}
    path = ".".join(f"f{one}" for one in reversed(range(n)))
    return _asked(f"defined($o.{path}) and $o.{path} > 3", o=kind)


# -- graphs ------------------------------------------------------------------------------------------------------------


@_family("the rules of a program, times its steps", 300, 5)
def guardrails_times_steps(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$i{one} > 5", f"a{one}", f"b{one}"),
            {"id": f"a{one}", "type": "tool", "tool": "look", "next_step": f"b{one}"},
            {"id": f"b{one}", "type": "tool", "tool": f"t{one}", "error_step": "d", "next_step": f"c{one + 1}"},
        ]
    steps.append(_end(f"c{n}"))
    rules = [
        {"name": f"g{one}", "protects": {"tool": f"t{n - 1}"}, "requires": {"step": f"a{one}"}} for one in range(n)
    ]
    tools = {f"t{one}": {"effect": "write", "idempotent": True} for one in range(n)}
    return _paid([*steps, _end()], rules, tools=tools, inputs={f"i{one}": {"type": "integer"} for one in range(n)})


@_family("conditions over booleans in a row, each of which leads past the guard or not", 200, 8)
def diamonds(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$b{one}", f"s{one}", f"c{one + 1}"),
            {"id": f"s{one}", "type": "set", "set": {"count": "$count + 1"}, "next_step": f"c{one + 1}"},
        ]
    start = {"id": "start", "type": "set", "set": {"count": 0}}
    steps = [
        start,
        *steps,
        _is(f"c{n}", f"$count == {n // 2}", "approved", "over"),
        _is("over", f"$count > {n}", "pay", "stop"),
    ]
    return _approved(steps, {f"b{one}": {"type": "boolean"} for one in range(n)})


@_family("the rounds of a loop that counts", 10_000_000, 1_000)
def a_long_count(n: int) -> Data:
    steps = [
        {"id": "start", "type": "set", "set": {"i": 0, "j": 0}},
        {"id": "turn", "type": "set", "set": {"i": "$i + 1", "j": "$j + 2"}, "next_step": "c", "max_visits": 10**9},
        _is("c", f"$i < {n}", "turn", "right"),
        _is("right", "$j == 2 * $i", "d", "pay"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid(steps, [NEVER])


@_family("variables that a loop changes together", 12, 3)
def a_loop_of_many_counters(n: int) -> Data:
    steps: list[Data] = [{"id": "start", "type": "set", "set": {f"x{one}": one for one in range(n)}}]
    for one in range(n):
        move = {f"x{one}": f"$x{(one + 1) % n} + $x{one} - 1"}
        steps.append(_is(f"c{one}", f"$b{one}", f"s{one}", f"c{one + 1}"))
        steps.append({"id": f"s{one}", "type": "set", "set": move, "next_step": "c0", "max_visits": 10**6})
    values = " + ".join(f"$x{one}" for one in range(n))
    steps += [
        _is(f"c{n}", f"{values} == 1000003", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        _end(),
    ]
    return _paid(steps, [NEVER], inputs={f"b{one}": {"type": "boolean"} for one in range(n)})


@_family("ways between steps: every step may go to every other", 250, 6)
def everything_leads_everywhere(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        cases = [{"when": f"$n == {other}", "then": f"c{other}"} for other in range(n) if other != one]
        steps.append({"id": f"c{one}", "type": "condition", "cases": cases, "otherwise": "d", "max_visits": 100})
    tail = [{"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, _end()]
    return _paid([*steps, *tail], [NEVER], inputs={"n": {"type": "integer"}})


@_family("what may become of the parts of a parallel step", 40, 4)
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
    tail = [_is("c", asked, "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, _end()]
    return _paid([whole, *tail], [NEVER])


@_family("rules that each forbid arguments of every call", 60, 4)
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
    return _paid([*calls, _end()], rules, tools=tools, inputs={f"i{one}": {"type": "number"} for one in range(n)})


@_family("calls of which each pair is counted", 1_500, 8)
def one_tool_called_everywhere(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$n == {one}", f"p{one}", f"c{one + 1}"),
            {"id": f"p{one}", "type": "tool", "tool": "pay", "next_step": f"c{one + 1}"},
        ]
    rule = {"name": "g", "at_most_once": {"tool": "pay"}}
    return _paid([*steps, _end(f"c{n}"), _end()], [rule], inputs={"n": {"type": "integer"}})


@_family("steps after each of which something has to follow", 1_500, 8)
def one_thing_follows_many(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps += [
            {"id": f"p{one}", "type": "tool", "tool": "pay", "error_step": f"l{one}", "next_step": f"c{one}"},
            _is(f"c{one}", f"$n > {one}", f"p{one + 1}", "d"),
            {"id": f"l{one}", "type": "tool", "tool": "look", "next_step": f"c{one}"},
        ]
    rule = {"name": "g", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}
    return _paid([*steps, _end(f"p{n}"), _end()], [rule], inputs={"n": {"type": "integer"}})


@_family("the steps of a program", 100_000, 200)
def a_long_program(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "tool", "tool": "look", "output_key": f"x{one}"} for one in range(n - 2)]
    return _paid(
        [*steps, {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}, _end()],
        [APPROVED | {"requires": {"step": "s7"}}],
    )


@_family("the conditions of a program that all read one variable", 5_000, 20)
def many_conditions_of_one_variable(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps.append(_is(f"c{one}", f"$n > {one}", f"c{one + 1}", "d"))
    tail = [{"id": f"c{n}", "type": "tool", "tool": "pay", "next_step": "d"}, _end()]
    rule = {"name": "g", "never": {"tool": "pay"}, "when": f"$n < {n // 2}"}
    return _paid([*steps, *tail], [rule], inputs={"n": {"type": "integer"}})


@_family("budgets that no run can use up", 10**18, 10**6)
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
        _is("c", "$b", "turn", "d"),
        _end(),
    ]
    rule = {"name": "g", "at_most_once": {"tool": "pay"}}
    return _paid(steps, [rule], inputs={"b": {"type": "boolean"}}, max_steps=n)


@_family("the findings of a program", 4_000, 20)
def many_findings(n: int) -> Data:
    steps: list[Data] = []
    for one in range(n):
        steps.append({"id": f"s{one}", "type": "tool", "tool": "pay", "args": {"x": f"$nobody{one}"}})
    return _paid([*steps, _end()], [NEVER | {"name": f"g{one}"} for one in range(n // 100)])


@_family("copies that each come from two places: two to the number of them ways lead back", 400, 8)
def copies_from_two_places(n: int) -> Data:
    return _copies(n, "d")


@_family("copies that each come from two places, in a loop", 200, 8)
def copies_in_a_loop(n: int) -> Data:
    return _copies(n, "again")


def _copies(n: int, after: str) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x0": "$text"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$b{one}", f"s{one}", f"t{one}"),
            {"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}, "next_step": f"c{one + 1}"},
            {"id": f"t{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}"}, "next_step": f"c{one + 1}"},
        ]
    steps += [
        _is(f"c{n}", f"$x{n} starts_with 'y'", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"text": f"$x{n}"}, "next_step": after},
        _end(),
    ]
    again: Data = {"id": "again", "type": "set", "set": {"x0": f"$x{n}"}, "next_step": "c0", "max_visits": 3}
    steps += [again] if after == "again" else []
    inputs = {"text": {"type": "string"}, **{f"b{one}": {"type": "boolean"} for one in range(n)}}
    return _paid(steps, [NEVER], inputs=inputs)


@_family("fields of fields that copies ask for: two to the number of copies paths", 60, 6)
def copies_of_one_of_two_fields(n: int) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x0": "$tree"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$b{one}", f"s{one}", f"t{one}"),
            {"id": f"s{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}.p"}, "next_step": f"c{one + 1}"},
            {"id": f"t{one}", "type": "set", "set": {f"x{one + 1}": f"$x{one}.q"}, "next_step": f"c{one + 1}"},
        ]
    tail = [_is(f"c{n}", f"$x{n} == 5", "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}]
    inputs = {"tree": {"type": "object"}, **{f"b{one}": {"type": "boolean"} for one in range(n)}}
    return _paid([*steps, *tail, _end()], [NEVER], inputs=inputs)


@_family("fields of fields that copies in a loop ask for", 60, 6)
def a_walk_down_a_tree(n: int) -> Data:
    steps: list[Data] = [{"id": "begin", "type": "set", "set": {"x": "$tree"}, "next_step": "c0"}]
    for one in range(n):
        steps += [
            _is(f"c{one}", f"$n == {one}", f"s{one}", f"c{one + 1}"),
            {"id": f"s{one}", "type": "set", "set": {"x": f"$x.f{one}"}, "next_step": "c0", "max_visits": 1_000},
        ]
    tail = [_is(f"c{n}", "$x == 5", "pay", "d"), {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"}]
    inputs = {"tree": {"type": "object"}, "n": {"type": "integer"}}
    return _paid([*steps, *tail, _end()], [NEVER], inputs=inputs)


@_family("products of several inputs, on which a solver does not keep to its limits", 9, 3)
def cubes(n: int) -> Data:
    each = [f"$x{one} * $x{(one + 1) % n} * $x{(one + 2) % n}" for one in range(n)]
    some = " and ".join(f"{product} == {one}.5" for one, product in enumerate(each))
    steps = [_is("large", f"{' + '.join(each)} > 100000007.5", "pay", "some"), _is("some", some, "pay", "approved")]
    kind = {"type": "number", "minimum": -1000, "maximum": 1000}
    return _approved(steps, {f"x{one}": kind for one in range(n)})


HOSTILE: Final = tuple(NAMED.values())
