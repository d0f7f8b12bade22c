"""Hostile types, literals, texts, numbers and expressions."""

from __future__ import annotations

from itertools import combinations

from hostile_programs.family import NEVER, Data, asked, cases_of, end, family, is_true, paid


@family("the members of an enum", 200_000, 300)
def enum_that_nobody_reads(n: int) -> Data:
    return {"inputs": {"s": {"enum": [f"v{one}" for one in range(n)]}}, "steps": [end()]}


@family("the members of an enum, times the conditions that ask for one", 20_000, 60)
def enum_asked_by_conditions(n: int) -> Data:
    steps = [is_true(f"c{one}", f"$s == 'v{one}'", "d", f"c{one + 1}") for one in range(n // 20)]
    return {"inputs": {"s": {"enum": [f"v{one}" for one in range(n)]}}, "steps": [*steps, end(f"c{n // 20}"), end()]}


@family("pairs of members of two enums", 5_000, 40)
def two_enums_compared(n: int) -> Data:
    kind = {"enum": [f"v{one}" for one in range(n)]}
    return asked("$a == $b", a=kind, b={"enum": [*kind["enum"][1:], "w"]})


@family("the members of an enum that a list names one by one", 20_000, 60)
def enum_in_a_list(n: int) -> Data:
    members = [f"v{one}" for one in range(n)]
    return asked(f"$s in [{', '.join(map(repr, members[: n // 2]))}]", s={"enum": members})


@family("objects in an enum, none of which can be hashed by itself", 5_000, 60)
def enum_of_objects(n: int) -> Data:
    return {"inputs": {"s": {"enum": [{"at": one, "of": [one]} for one in range(n)]}}, "steps": [end()]}


@family("members of an enum against the type beside it", 20_000, 60)
def enum_of_which_none_is_of_its_type(n: int) -> Data:
    return {"inputs": {"s": {"type": "integer", "enum": [f"v{one}" for one in range(n)]}}, "steps": [end()]}


@family("texts that are compared with an enum, each in vain: what was meant is looked for", 4_000, 30)
def texts_that_no_enum_has(n: int) -> Data:
    kind = {"enum": [f"member-number-{one}" for one in range(n)]}
    return cases_of([f"$s == 'membre-nombre-{one}'" for one in range(n // 10)], {"s": kind})


@family("cases over one integer", 5_000, 40)
def cases_of_an_integer(n: int) -> Data:
    return cases_of([f"$n == {one}" for one in range(n)], {"n": {"type": "integer"}})


@family("pairs of cases over one integer, which shall exclude one another", 2_000, 30)
def exclusive_cases(n: int) -> Data:
    whens = [f"$n >= {one} and $n < {one + 1}" for one in range(n)]
    return cases_of(whens, {"n": {"type": "integer"}}, exclusive=True)


@family("overlapping cases over sums: each pair is for the solver", 60, 6)
def exclusive_cases_of_sums(n: int) -> Data:
    whens = [f"$x + {one} * $y > $z + {one * one}" for one in range(n)]
    return cases_of(whens, {name: {"type": "integer"} for name in "xyz"}, exclusive=True, otherwise=None)


@family("literals that are looked for in one text", 3_000, 6)
def cases_that_look_into_a_text(n: int) -> Data:
    return cases_of([f"$s contains 'part {one}.'" for one in range(n)], {"s": {"type": "string"}})


@family("2 to the number of literals that a text may hold together, its length asked as well", 40, 5)
def literals_and_a_length(n: int) -> Data:
    inside = " and ".join(f"($s contains 'x{one}' or $s ends_with '{one}y')" for one in range(n))
    return asked(f"{inside} and len($s) < {3 * n}", s={"type": "string"})


@family("pairs of texts that are compared with one another", 60, 5)
def texts_compared_with_one_another(n: int) -> Data:
    pairs = [f"$s{one} == $s{(one * 7 + 3) % n}" for one in range(n)]
    whens = [f"{pair} and $s{one} contains 'p{one}'" for one, pair in enumerate(pairs)]
    return cases_of(whens, {f"s{one}": {"type": "string"} for one in range(n)}, otherwise=None)


@family("literals of a list, times the items of the list that it is held against", 3_000, 20)
def a_list_against_an_enum_of_items(n: int) -> Data:
    kind = {"type": "array", "items": {"enum": [f"v{one}" for one in range(n)]}}
    whens = [f"$l contains 'v{one}'" for one in range(n // 10)]
    return cases_of([*whens, "len($l) > 3"], {"l": kind}, otherwise=None)


@family("the length of a text", 1_000_000_000, 10_000)
def a_long_text_is_forbidden(n: int) -> Data:
    rule = {"name": "g", "never": {"tool": "pay"}, "when": f"len($s) > {n}"}
    return paid([{"id": "p", "type": "tool", "tool": "pay"}], [rule], inputs={"s": {"type": "string"}})


@family("the exponent of a length", 20, 20)
def a_length_of_more_than_there_is(n: int) -> Data:
    return asked(f"len($s) < 1e{n} and len($l) > 1e{n // 2}", s={"type": "string"}, l={"type": "array"})


@family("the length of a list", 100_000_000, 100_000_000)
def a_long_list(n: int) -> Data:
    return asked(f"len($l) > {n}", l={"type": "array", "items": {"type": "object"}})


@family("the most code points of a type", 999_999_999, 999_999_999)
def a_type_of_long_texts(n: int) -> Data:
    kind = {"type": "string", "maxLength": n}
    whens = [f"len($s) == {n}", f"len($s) > {n - 1}", f"$s starts_with 'x' and len($s) > {n // 2}"]
    return cases_of(whens, {"s": kind}, otherwise=None)


@family("the exponent of a number", 999, 999)
def numbers_with_long_exponents(n: int) -> Data:
    whens = [f"$n > 1e{n}", f"$n < -1e{n}", f"$n == 1e-{n}", f"$n * 1e{n} > 1e-{n}"]
    return cases_of(whens, {"n": {"type": "number"}}, otherwise=None)


@family("the exponent of a number that nobody can write out", 999_999_999, 999_999_999)
def a_number_with_a_hostile_exponent(n: int) -> Data:
    return asked(f"$n > 1e{n} or $n < 1e-{n}", n={"type": "number"})


@family("the digits of numbers that are multiplied again and again", 60, 12)
def a_square_of_squares(n: int) -> Data:
    steps = [{"id": f"s{one}", "type": "set", "set": {"x": "$x * $x" if one else "$n"}} for one in range(n)]
    tail = [
        is_true("c", "$x > 1000003", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid([*steps, *tail], [NEVER], inputs={"n": {"type": "integer", "minimum": 2, "maximum": 9}})


@family("the factors of a number", 14, 6)
def a_number_to_factor(n: int) -> Data:
    number = (10**n + 37) * (10**n + 99)
    kind = {"type": "integer", "minimum": 2}
    steps = [
        is_true("c", f"$p * $q == {number} and $p < $q", "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid(steps, [NEVER], inputs={"p": kind, "q": kind})


@family("the subsets of numbers of which one has a certain sum", 60, 8)
def a_sum_of_some(n: int) -> Data:
    terms = " + ".join(f"{(one * 7919 + 104729) ** 3} * $x{one}" for one in range(n))
    kind = {"type": "integer", "minimum": 0, "maximum": 1}
    return asked(f"{terms} == {10**16 + 7}", **{f"x{one}": kind for one in range(n)})


@family("pigeons that do not fit into their holes", 11, 2)
def pigeons(n: int) -> Data:
    inputs = {f"p{a}_{b}": {"type": "boolean"} for a in range(n + 1) for b in range(n)}
    housed = [f"({' or '.join(f'$p{a}_{b}' for b in range(n))})" for a in range(n + 1)]
    alone = [f"not ($p{a}_{b} and $p{c}_{b})" for b in range(n) for a, c in combinations(range(n + 1), 2)]
    steps = [
        is_true("c", " and ".join(housed + alone), "pay", "d"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "d"},
        end(),
    ]
    return paid(steps, [NEVER], inputs=inputs)


@family("numbers that are compared in a ring", 150, 6)
def numbers_in_a_ring(n: int) -> Data:
    steps = [is_true(f"c{one}", f"$x{one} * 3 < $x{(one + 1) % n} * 2", f"c{one + 1}", "d") for one in range(n)]
    tail = [{"id": f"c{n}", "type": "tool", "tool": "pay", "next_step": "d"}, end()]
    kind = {"type": "number", "minimum": 1}
    return paid([*steps, *tail], [NEVER], inputs={f"x{one}": kind for one in range(n)})


@family("the operands of one condition", 20_000, 100)
def a_long_condition(n: int) -> Data:
    return asked(" or ".join(f"$n == {one}" for one in range(n)), n={"type": "integer"})


@family("the references of one condition", 3_000, 20)
def a_condition_over_many_inputs(n: int) -> Data:
    return asked(" and ".join(f"$b{one}" for one in range(n)), **{f"b{one}": {"type": "boolean"} for one in range(n)})


@family("the nesting of one condition", 15, 15)
def a_deep_condition(n: int) -> Data:
    text = "$b"
    for one in range(n):
        text = f"not ({text} and $n > {one})"
    return asked(text, b={"type": "boolean"}, n={"type": "integer"})


@family("the terms of a sum", 10_000, 50)
def a_long_sum(n: int) -> Data:
    return asked(f"{' + '.join(f'{one} * $n' for one in range(n))} > 7", n={"type": "integer"})


@family("the references in a prompt", 20_000, 50)
def a_long_prompt(n: int) -> Data:
    inputs = {f"i{one}": {"type": "string"} for one in range(n // 20)}
    text = " ".join(f"$i{one % (n // 20)} and" for one in range(n))
    return {"inputs": inputs, "steps": [{"id": "a", "type": "llm", "prompt": text}, end()]}
