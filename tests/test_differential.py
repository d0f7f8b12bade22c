"""What the checker says is held against the truth: small random programs of which every run is enumerated.

Nothing that happens may be proved away or left unsaid, and nothing may be said that never happens. What the checker
leaves open (SW408) is counted, and held against a table. Each proof must be accepted by the second checker in the same
run. `STEPWARD_DIFFERENTIAL` says how many programs are tried.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import yaml

from brute_force import Truth, truth
from layers import only
from small_language import NotSmallError
from small_programs import rare_programs, small_program
from small_runs import Chance
from stepward.validator import Finding, ProgramValidator, Report, Verdict
from stepward.validator.context import Context
from stepward.vm import Program

ACCEPTED = {
    # The share of properties that are neither proved nor violated.
    "unknown requires": 0.002,
    "unknown never": 0.002,
    "unknown at_most_once": 0.002,
    "unknown followed_by": 0.005,
    "unknown exclusive": 0.002,
    "unknown coverage": 0.002,
    "unknown exclusive cases": 0.002,
    # The share of what is true and not said, of all that is true.
    "unsaid SW103": 0.23,
    "unsaid SW303": 0.31,
    "unsaid SW304": 0.05,
    # The share of what is said and can't happen, of all that is said.
    "infeasible SW202": 0.08,
    # What the language can be read to ask for: see `Truth.debatable`.
    "unsaid debatable": 1.0,
    # Programs with a witness that the machine does not confirm, and programs too large to enumerate.
    "unconfirmed": 0.001,
    "skipped": 0.001,
}
CHUNK = 100
CHUNKS = max(1, int(os.environ.get("STEPWARD_DIFFERENTIAL", "1400")) // CHUNK)
COUNTED_CHUNKS = 5
ALONE = {
    # Programs that each layer is asked about alone, and the share of properties that it may leave open.
    "finite abstraction": (300, 0.02),
    "explicit search": (300, 0.02),
    "block formula": (200, 0.02),
}
RULE_CODES = ("SW401", "SW402", "SW403", "SW404", "SW405", "SW406")
ILLEGAL = re.compile(r"SW0\d\d|SW10[1256]|SW20[134567]|SW210|SW301")


# -- the comparison ----------------------------------------------------------------------------------------------------


@dataclass
class Comparison:
    """Where the checker and the truth part, in words, and what was counted."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def checked(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data)).validate()


def unchecked(data: dict[str, Any]) -> Report:
    """Return what the engine says alone."""
    return ProgramValidator(Program.from_dict(data), recheck=False).validate()


def compare(
    data: dict[str, Any], check: Callable[[dict[str, Any]], Report] = checked, *, is_rechecked: bool | None = None
) -> Comparison:
    """Hold what the checker says of a program against what happens.

    `is_rechecked` says whether `check` has its proofs rechecked, as `checked` does.
    """
    result = Comparison()
    result.counts["all skipped"] += 1
    try:
        found = truth(data)
    except NotSmallError:
        result.counts["skipped"] += 1
        return result
    try:
        report = check(data)
    except Exception as error:  # whatever it is, it is one more thing to report
        result.wrong.append(f"the checker breaks: {type(error).__name__}: {error}")
        return result
    result.wrong += illegal(report) + refused(
        report, is_rechecked=check is checked if is_rechecked is None else is_rechecked
    )
    compare_rules(data, report, found, result)
    compare_coverage(report, found, result)
    compare_proofs(data, report, found, result)
    compare_allowed(data, report, found, result)
    compare_warnings(report, found, dead_steps(data), result)
    compare_readings(data, report, found, result)
    result.counts["all unconfirmed"] += 1
    result.counts["unconfirmed"] += any(finding.code == "SW901" for finding in report.findings)
    return result


def illegal(report: Report) -> list[str]:
    """Return what makes a program one that nobody would ask about."""
    found = [finding.message for finding in report.findings if ILLEGAL.fullmatch(finding.code)]
    return [f"the program is not legal: {message}" for message in found]


def refused(report: Report, *, is_rechecked: bool) -> list[str]:
    """Return the proofs that the second checker does not accept, and those that it has not seen."""
    found = [f"refused: {finding.message}" for finding in report.findings if finding.code == "SW902"]
    found += [f"refused: {one.message}" for one in report.findings if "the second checker can't" in one.message]
    proved = [one for one in report.properties if one.verdict is Verdict.PROVED]
    return found + [f"{one.name} of {one.rule} is not rechecked" for one in proved if one.rechecked is not is_rechecked]


def compare_rules(data: dict[str, Any], report: Report, found: Truth, result: Comparison) -> None:
    """Guardrails: the same codes at the same places. Where a run is cancelled is no place: any will do then."""
    anywhere = {rule["name"] for rule in data["guardrails"] if rule.get("ends") == "any"}
    said = {entry for entry in map(_of_rule, report.findings) if entry}
    said = {(rule, code, "" if rule in anywhere else step) for rule, code, step in said}
    true, debatable = (
        {(rule, code, "" if rule in anywhere else step) for rule, places in known.items() for code, step in places}
        for known in (found.broken, found.debatable)
    )
    opened = {(rule, step) for rule, code, step in said if code == "SW408"}
    result.counts["unsaid debatable"] += len(debatable - true - said)
    result.counts["all unsaid debatable"] += len(debatable - true)
    for rule, code, step in sorted(said - true - debatable):
        if code != "SW408":
            result.wrong.append(f"false alarm: {code} of {rule} at {step}")
    for rule, code, step in sorted(true - said):
        if (rule, step) not in opened:
            result.wrong.append(f"missed: {code} of {rule} at {step}")


def _of_rule(finding: Finding) -> tuple[str, str, str] | None:
    """Return the rule, the code and the step of a finding on a guardrail."""
    rule = re.search(r"\(guardrail `(\w+)`", finding.message)
    is_one = rule is not None and finding.code in (*RULE_CODES, "SW408")
    return (rule[1], finding.code, finding.step or "") if rule is not None and is_one else None


def compare_coverage(report: Report, found: Truth, result: Comparison) -> None:
    """SW302 and SW305, with what the checker leaves open."""
    opened = {(prop.name, prop.rule) for prop in report.properties if prop.verdict is Verdict.UNKNOWN}
    for code, name, true in (
        ("SW302", "coverage", found.uncovered),
        ("SW305", "exclusive cases", found.overlapping),
    ):
        said = {finding.step for finding in report.findings if finding.code == code}
        result.wrong += [f"false alarm: {code} at {step}" for step in sorted(map(str, said - true))]
        result.wrong += [f"missed: {code} at {step}" for step in sorted(true - said) if (name, step) not in opened]


def compare_proofs(data: dict[str, Any], report: Report, found: Truth, result: Comparison) -> None:
    """What is proved never happens, and what is violated does."""
    for prop in report.properties:
        if prop.name not in ("coverage", "exclusive cases", "allow") and prop.rule not in found.broken:
            continue  # a policy waives it, or does not apply: whether it holds is nobody's question
        if prop.name == "allow":
            continue  # one for each call, while the rule speaks of all: see `compare_allowed`
        broken = {"coverage": found.uncovered, "exclusive cases": found.overlapping}.get(prop.name)
        is_broken = prop.rule in broken if broken is not None else bool(found.broken.get(prop.rule))
        if prop.verdict is Verdict.PROVED and is_broken:
            result.wrong.append(f"UNSOUND: {prop.name} of {prop.rule} is proved by {prop.evidence.layer}, and broken")
        if prop.verdict is Verdict.VIOLATED and not (is_broken or found.debatable.get(prop.rule)):
            result.wrong.append(f"{prop.name} of {prop.rule} is called violated, and holds")
        if prop.evidence.reason != "the rule is vacuous":
            result.counts[f"all unknown {prop.name}"] += 1
            result.counts[f"unknown {prop.name}"] += prop.verdict is Verdict.UNKNOWN
            result.counts[f"truly broken {prop.name}"] += is_broken


def compare_allowed(data: dict[str, Any], report: Report, found: Truth, result: Comparison) -> None:
    """An allow list: of the calls of a tool, no more are proved than are never made with other arguments."""
    for tool in {prop.rule for prop in report.properties if prop.name == "allow"}:
        calls = [step["id"] for step in data["steps"] for part in _parts(step) if part.get("tool") == tool]
        said = [prop for prop in report.properties if (prop.name, prop.rule) == ("allow", tool)]
        proved = sum(prop.verdict is Verdict.PROVED for prop in said)
        broken = {step for _, step in found.broken["allow"]}
        if proved > len(calls) - len(broken.intersection(calls)):
            result.wrong.append(f"UNSOUND: allow of {tool} is proved of {proved} calls, and broken at {sorted(broken)}")


def _parts(step: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (step, *step.get("parallel_steps", ()))


def dead_steps(data: dict[str, Any]) -> set[str]:
    """Return all that SW103 speaks of: its findings name the first step of each region, and count the others."""
    program = Program.from_dict(data)
    return {program.steps[number].id for number in Context(program).proofs.dead.infeasible}


def compare_warnings(report: Report, found: Truth, dead: set[str], result: Comparison) -> None:
    """SW103, SW303, SW304: what is said is true; what is true and not said is counted."""
    said: dict[str, set[Any]] = {"SW103": dead, "SW303": set(), "SW304": set()}
    result.wrong += [f"false alarm: SW103 at {step}" for step in sorted(dead & found.reached)]
    for finding in report.findings:
        step = finding.step or ""
        if finding.code == "SW103":
            is_true = step in dead
        elif finding.code == "SW303":
            said["SW303"].add(step)
            is_true = ("always true" not in finding.message) not in found.values.get(step, set())
        elif finding.code == "SW304":
            number = finding.place.path[3] + 1  # type: ignore[operator]
            said["SW304"].add((step, number))
            is_true = number not in found.taken.get(step, set())
        else:
            continue
        if not is_true:
            result.wrong.append(f"false alarm: {finding.code} at {step}: {finding.message}")
    for code, true in (
        # Behind a reading that always fails nothing is reached either, and SW202 has said it.
        ("SW103", set() if found.undefined else found.unreached),
        ("SW303", set(found.constant)),
        ("SW304", found.shadowed),
    ):
        result.counts[f"all unsaid {code}"] += len(true)
        result.counts[f"unsaid {code}"] += len(true - said[code])


def compare_readings(data: dict[str, Any], report: Report, found: Truth, result: Comparison) -> None:
    """SW202: every reading that can fail is said; what is said and can't happen is counted."""
    owners = {part["id"]: step["id"] for step in data["steps"] for part in step.get("parallel_steps", ())}
    true = {(owners.get(reader, reader), name) for reader, name in found.undefined}
    said = {
        (owners.get(finding.step or "", finding.step or ""), finding.message.split("`")[1].removeprefix("$"))
        for finding in report.findings
        if finding.code == "SW202"
    }
    result.wrong += [f"missed: SW202 at {step}: ${name}" for step, name in sorted(true - said)]
    result.counts["all infeasible SW202"] += len(said)
    result.counts["infeasible SW202"] += len(said - true)


# -- the smallest program ----------------------------------------------------------------------------------------------


def shrink(data: dict[str, Any], still_fails: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return a smaller program that fails too: whatever can be left out one by one is."""
    while True:
        smaller = next((one for one in _smaller(data) if _fails(one, still_fails)), None)
        if smaller is None:
            return data
        data = smaller


def _fails(data: dict[str, Any], still_fails: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        return still_fails(data)
    except Exception:  # what makes no program is no smaller program
        return False


def _smaller(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the program with one thing less, large things first."""
    for number in range(len(data["guardrails"]) - 1, -1, -1):
        yield _without(data, ("guardrails", number))
    for number in range(len(data["steps"]) - 1, -1, -1):
        yield from _without_step(data, number)
    for path in _optional(data, ()):
        yield _without(data, path)
    for number, step in enumerate(data["steps"]):
        for text in re.findall(r"\(([^()]*)\)", step.get("condition", "")):
            yield _changed(data, number, "condition", text)
        for text in re.split(r" and | or ", step.get("condition", "")):
            if text != step.get("condition"):
                yield _changed(data, number, "condition", text)


def _changed(data: dict[str, Any], number: int, name: str, value: Any) -> dict[str, Any]:
    less = deepcopy(data)
    less["steps"][number][name] = value
    return less


def _without(data: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    less = deepcopy(data)
    inner: Any = less
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    if path[-1] == "on_timeout":
        inner.pop("timeout_seconds", None), inner.pop("fallback", None)
    return less


KEPT = ("id", "type", "name", "steps", "guardrails", "tools", "when", "then", "condition", "prompt", "tool", "set")


def _optional(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of what may be left out."""
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield (*path, number)
            yield from _optional(inner, (*path, number))
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in KEPT or path[-1:] == ("set",):
                yield (*path, name)
            if path or name in ("steps", "guardrails", "inputs"):
                yield from _optional(inner, (*path, name))


def _without_step(data: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the program without a step: those who went to it go to one of its neighbours."""
    steps = data["steps"]
    for other in (number + 1, number - 1):
        if not 0 <= other < len(steps):
            continue
        less = deepcopy(data)
        del less["steps"][number]
        for step in less["steps"]:
            for part in (step, *step.get("cases", ())):
                for name in ("then", "otherwise", "error_step", "next_step"):
                    if part.get(name) == steps[number]["id"]:
                        part[name] = steps[other]["id"]
        yield less


def same_kind(wrong: list[str]) -> Callable[[dict[str, Any]], bool]:
    """Return a test for programs with which something of that kind is wrong, and which are legal."""
    kinds = {_kind(text) for text in wrong}

    def still_fails(data: dict[str, Any]) -> bool:
        found = compare(data).wrong
        if any("breaks" in text for text in found) and data["guardrails"]:
            found += illegal(checked({**data, "guardrails": []}))
        return not any("not legal" in text for text in found) and bool(kinds & {_kind(text) for text in found})

    return still_fails


def _kind(text: str) -> str:
    return re.sub(r" (of|at) .*", "", text)


# -- the search --------------------------------------------------------------------------------------------------------


def _chunks() -> Iterator[Any]:
    """Yield the chunks; all but the first belong to the slow tests."""
    for chunk in range(CHUNKS):
        marks = [pytest.mark.slow] if chunk else []
        yield pytest.param(chunk, id=f"{chunk * CHUNK}-{chunk * CHUNK + CHUNK - 1}", marks=marks)


@cache
def counted(chunk: int) -> tuple[Counter[str], tuple[tuple[int, tuple[str, ...]], ...]]:
    """Return what was counted in a chunk of programs, and the seeds with what is wrong."""
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        found = compare(small_program(seed))
        counts.update(found.counts)
        if found.wrong:
            wrong.append((seed, tuple(found.wrong)))
    return counts, tuple(wrong)


@pytest.mark.parametrize("chunk", list(_chunks()))
def test_the_checker_says_what_happens(chunk: int) -> None:
    _, wrong = counted(chunk)
    if wrong:
        seed, said = wrong[0]
        smallest = shrink(small_program(seed), same_kind(list(said)))
        words = [f"seed {number}: {text}" for number, texts in wrong for text in texts]
        words += [
            "",
            f"seed {seed}, made small: {compare(smallest).wrong}",
            yaml.safe_dump(smallest, sort_keys=False, default_flow_style=None),
        ]
        pytest.fail("\n".join(words), pytrace=False)


@pytest.mark.parametrize("seed", [-number for number in range(1, len(rare_programs()) + 1)])
def test_the_checker_says_what_happens_in_programs_by_hand(seed: int) -> None:
    found = compare(small_program(seed))
    assert not found.wrong
    assert not found.counts["skipped"]


@pytest.mark.slow
@pytest.mark.parametrize("layer", ALONE)
def test_every_layer_that_answers_is_right_alone(layer: str) -> None:
    programs, accepted = ALONE[layer]
    counts: Counter[str] = Counter()
    wrong = {}
    with pytest.MonkeyPatch.context() as patch:
        only(patch, layer)
        for seed in range(programs):
            found = compare(small_program(seed))
            counts.update(found.counts)
            if found.wrong:
                wrong[seed] = found.wrong
    total = sum(count for name, count in counts.items() if name.startswith("all unknown"))
    left = {name: count for name, count in counts.items() if name.startswith("unknown") and count}
    print(f"{layer:20} alone leaves open {sum(left.values())} of {total}: {left}")
    assert not wrong
    assert sum(left.values()) <= accepted * total


@pytest.mark.slow
def test_what_is_left_open_is_within_the_table() -> None:
    counts: Counter[str] = Counter()
    for chunk in range(min(CHUNKS, COUNTED_CHUNKS)):
        counts.update(counted(chunk)[0])
    shares = {name: counts[name] / max(1, counts[f"all {name}"]) for name in ACCEPTED}
    for name, share in shares.items():
        print(f"{name:28} {counts[name]:6} of {counts[f'all {name}']:6}  {share:6.1%}  accepted {ACCEPTED[name]:.0%}")
    assert not {name: round(share, 3) for name, share in shares.items() if share > ACCEPTED[name]}


# -- the oracle itself -------------------------------------------------------------------------------------------------

N = {"type": "integer", "minimum": 0, "maximum": 3}
LETTER = {"type": "string", "enum": ["a", "b"]}
MANIFEST: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": False, "returns": {"type": "boolean"}},
    "book": {"effect": "write", "idempotent": True, "args": {"x": {"type": "integer"}}},
    "ask": {"effect": "read", "returns": {"type": "boolean"}},
    "look": {"effect": "read", "returns": {"type": "object", "properties": {"f": {"type": "boolean"}}}},
}
PAY = {"tool": "pay"}


def small(*steps: dict[str, Any], rule: dict[str, Any] | None = None, **more: Any) -> Truth:
    inputs = {"n": N, "m": N, "l": LETTER, "ok": {"type": "boolean"}}
    rules = [{"name": "rule", **rule}] if rule else []
    return truth({"inputs": inputs, "tools": MANIFEST, "guardrails": rules, **more, "steps": list(steps)})


def tool(name: str, kind: str = "ask", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": kind, **more}


def check(name: str, condition: str, then: str | None, otherwise: str | None = None, **more: Any) -> dict[str, Any]:
    ways = {field: target for field, target in (("then", then), ("otherwise", otherwise)) if target}
    return {"id": name, "type": "condition", "condition": condition, **ways, **more}


def assign(name: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "set", "set": values, **more}


def end(name: str = "e", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "end", **more}


PAID = tool("p", "pay", is_terminal=True)
CHANGED = [
    assign("s", {"k": "$n"}),
    check("c", "$k < 2", "t", "e"),
    assign("t", {"k": 0}, next_step="p"),
    PAID,
    end(),
]
GATED = {"protects": PAY, "requires": {"step": "c", "branch": "then"}}


@pytest.mark.parametrize(
    ("steps", "rule", "broken"),
    [
        # SW401: a way around the gate that is feasible, and one that is not.
        ([check("c", "$n < 2", "p", "d"), check("d", "$n == 3", "p", "e"), PAID, end()], GATED, {("SW401", "p")}),
        ([check("c", "$n < 2", "p", "d"), check("d", "$n == 0", "p", "e"), PAID, end()], GATED, set()),
        # SW402: the gate reads what is assigned behind it; `fresh: false` does not mind, another variable neither.
        (
            CHANGED,
            GATED,
            {("SW402", "p")},
        ),
        (
            CHANGED,
            GATED | {"fresh": False},
            set(),
        ),
        (
            [check("c", "$n < 2", "t", "e"), assign("t", {"k": 0}, next_step="p"), PAID, end()],
            GATED,
            set(),
        ),
        # A guard that was skipped, or fell back, did not succeed.
        (
            [tool("a", on_error="skip"), PAID],
            {"protects": PAY, "requires": {"any_of": [{"tool": "ask"}, {"step": "none"}]}},
            {("SW401", "p")},
        ),
        (
            [tool("a", timeout_seconds=1, on_timeout="fallback", fallback=True), PAID],
            {"protects": PAY, "requires": {"tool": "ask"}},
            {("SW401", "p")},
        ),
        ([tool("a", on_error="retry"), PAID], {"protects": PAY, "requires": {"tool": "ask"}}, set()),
        # SW403: by variables, by arguments, and where `when` can't be evaluated.
        ([check("c", "$n < 2", "p", "e"), PAID, end()], {"never": PAY, "when": "$n > 1"}, set()),
        ([check("c", "$n < 2", "p", "e"), PAID, end()], {"never": PAY, "when": "$n > 0"}, {("SW403", "p")}),
        ([tool("b", "book", args={"x": "$n"})], {"never": {"tool": "book"}, "when": "$args.x > 2"}, {("SW403", "b")}),
        ([tool("b", "book", args={"x": 1})], {"never": {"tool": "book"}, "when": "$args.x > 2"}, set()),
        (
            [tool("a", output_key="v", on_error="skip"), PAID],
            {"never": PAY, "when": "$v and false"},
            {("SW403", "p")},
        ),
        # SW404: retries of what is not idempotent, siblings, a flag that lets it happen once.
        ([tool("p", "pay", on_error="retry")], {"at_most_once": PAY}, {("SW404", "p")}),
        ([tool("b", "book", args={"x": 1}, on_error="retry")], {"at_most_once": {"tool": "book"}}, set()),
        (
            [assign("s", {"done": False}), check("c", "$done", "e", "p"), tool("p", "pay", next_step="t"),
             assign("t", {"done": True}, next_step="c"), end()],
            {"at_most_once": PAY},
            set(),
        ),
        (
            [assign("s", {"done": False}), check("c", "$done", "e", "p"), tool("p", "pay", next_step="t"),
             assign("t", {"done": "$ok"}, next_step="c"), end()],
            {"at_most_once": PAY},
            {("SW404", "p")},
        ),
        # SW405: an error on the way; the status that `ends` asks for.
        (
            [tool("p", "pay"), tool("a"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}},
            {("SW405", "a")},
        ),
        (
            [tool("p", "pay"), tool("a"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}, "ends": "success"},
            set(),
        ),
        (
            [tool("p", "pay"), check("c", "$n < 2", "b"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}},
            {("SW405", "c")},
        ),
        # SW406: two arms of one condition, asked twice.
        (
            [check("c", "$ok", "p", "d"), tool("p", "pay", next_step="d"),
             check("d", "$ok", "e", "b"), tool("b", "book", args={"x": 1}), end()],
            {"exclusive": [PAY, {"tool": "book"}]},
            set(),
        ),
        (
            [check("c", "$ok", "p", "d"), tool("p", "pay", next_step="d"),
             check("d", "$n == 0", "e", "b"), tool("b", "book", args={"x": 1}), end()],
            {"exclusive": [PAY, {"tool": "book"}]},
            {("SW406", "b")},
        ),
    ],
)  # fmt: skip
def test_the_truth_about_rules(steps: list[dict[str, Any]], rule: dict[str, Any], broken: set[tuple[str, str]]) -> None:
    assert small(*steps, rule=rule).broken == {"rule": broken}


COUNTING = [
    assign("s", {"k": 0}),
    check("c", "$k < $n", "t", "p"),
    assign("t", {"k": "$k + 1"}, next_step="c"),
    tool("p", "pay", is_terminal=True),
]
INTO_THE_MIDDLE = [
    check("c", "$ok", "x", "y"),
    assign("x", {"k": 1}, next_step="y", max_visits=2),
    assign("y", {"j": 1}, next_step="d"),
    check("d", "$n > 1 and not (defined($k) and defined($z))", "x", "p"),
    tool("p", "pay", is_terminal=True),
]


@pytest.mark.parametrize(
    ("steps", "more", "when", "broken"),
    [
        # A loop that ends by itself, one that is cut off by its visits, and one by the budget: 2 + 2 k + 1 steps.
        (COUNTING, {}, "$k == 3", True),
        (COUNTING, {}, "$k != $n", False),
        ([*COUNTING[:2], COUNTING[2] | {"max_visits": 2}, COUNTING[3]], {}, "$k == 2", True),
        ([*COUNTING[:2], COUNTING[2] | {"max_visits": 2}, COUNTING[3]], {}, "$k == 3", False),
        (COUNTING, {"max_steps": 7}, "$k == 2", True),
        (COUNTING, {"max_steps": 6}, "$k == 2", False),
        # A loop with two entries, of which one defines what the other does not.
        (INTO_THE_MIDDLE, {}, "not defined($k)", True),
        (INTO_THE_MIDDLE, {}, "not defined($k) and $ok", False),
        (INTO_THE_MIDDLE, {}, "not defined($k) and $n > 1", False),
    ],
)
def test_the_truth_about_loops(steps: list[dict[str, Any]], more: dict[str, Any], when: str, broken: bool) -> None:
    steps = [*steps, assign("never", {"z": 1})]
    assert small(*steps, rule={"never": PAY, "when": when}, **more).broken == {
        "rule": {("SW403", "p")} if broken else set()
    }


def test_a_visit_too_many_goes_to_the_error_step_once() -> None:
    steps = [tool("a", max_visits=1, error_step="b", next_step="a"), tool("b", "pay", next_step="a")]
    rule = {"followed_by": {"first": PAY, "then": {"step": "e"}}}
    owed = {("SW405", "a"), ("SW405", "b")}
    assert small(*steps, rule=rule).broken == {"rule": owed}, "the second time it stalls; the second payment may fail"


def test_retries_need_their_budget() -> None:
    alone = tool("p", "pay", on_error="retry")
    parts = [tool("x"), tool("y", "pay")]
    beside = {"id": "b", "type": "parallel", "parallel_steps": parts, "on_error": "retry"}
    for step, enough, owner in ((alone, 2, "p"), (beside, 5, "b")):
        assert small(step, rule={"at_most_once": PAY}, max_steps=enough - 1).broken == {"rule": set()}
        assert small(step, rule={"at_most_once": PAY}, max_steps=enough).broken == {"rule": {("SW404", owner)}}


def test_what_cannot_be_read_fails_a_step_before_it_starts() -> None:
    ask = tool("a", output_key="v", on_error="skip")
    rule = {"never": {"tool": "book"}, "when": "not defined($v)"}
    assert small(ask, tool("b", "book", args={"x": "$v"}), rule=rule).broken == {"rule": set()}
    assert small(ask, tool("b", "book", args={"x": 1}), rule=rule).broken == {"rule": {("SW403", "b")}}
    steps = [tool("a", "look", output_key="r"), check("c", "$r.f", "p", "p"), PAID]
    assert small(*steps, rule={"never": PAY, "when": "not defined($r.f)"}).broken == {"rule": set()}
    steps = [check("c", "$l in ['a'] and not $ok", "p", "e"), PAID, end()]
    assert small(*steps, rule={"never": PAY, "when": "$l != 'a' or $ok"}).broken == {"rule": set()}


def test_the_truth_about_conditions() -> None:
    cases = {
        "id": "c",
        "type": "condition",
        "exclusive": True,
        "cases": [{"when": "$n < 1", "then": "e"}, {"when": "$n < 3", "then": "d"}, {"when": "$n == 1", "then": "e"}],
    }
    found = small(cases, check("d", "$n > 0", "f", "e"), check("f", "$n == 3", "g", "e"), end("g"), end())
    assert found.uncovered == {"c"}
    assert found.overlapping == {"c"}
    assert found.shadowed == {("c", 3)}
    assert found.constant == {"d": True, "f": False}
    assert found.unreached == {"g"}


def test_the_truth_about_what_is_undefined() -> None:
    found = small(
        tool("a", "look", output_key="v", on_error="skip"),
        check("c", "defined($a.error)", "d", "f"),
        check("d", "$n > 2 or $v.f", "e", "e"),
        check("f", "$v.f", "e", "g"),
        {"id": "g", "type": "llm", "prompt": "it is $v.f"},
        end(),
    )
    assert found.undefined == {("d", "v.f"), ("f", "v.f")}


def test_the_truth_about_siblings() -> None:
    """They see the state before, bind at the join, and are not before one another."""
    parts = [tool("x", "ask", output_key="v"), tool("y", "pay", on_error="skip"), tool("z", "look", on_error="skip")]
    steps = [
        {"id": "b", "type": "parallel", "parallel_steps": parts, "error_step": "f"},
        check("c", "defined($v)", "e", "g"),
        check("f", "defined($v)", "g", "e"),
        end("g"),
        end(),
    ]
    found = small(*steps, rule={"protects": PAY, "requires": {"tool": "ask"}})
    assert found.broken == {"rule": {("SW401", "b")}}
    assert found.unreached == {"g"}
    assert found.values == {"c": {True}, "f": {False}}


def test_a_cancelled_run_and_one_out_of_budget_owe_with_any_ending() -> None:
    rule = {"followed_by": {"first": PAY, "then": {"step": "b"}}, "ends": "any"}
    assert small(tool("p", "pay"), tool("b"), rule=rule).broken == {"rule": set()}
    assert small(tool("p", "pay"), tool("b"), rule=rule).debatable == {"rule": {("SW405", "b")}}
    assert small(tool("p", "pay"), tool("b"), rule=rule, max_steps=1).broken == {"rule": {("SW405", "b")}}
    assert small(tool("p", "pay"), assign("s", {"k": 1}), tool("b"), rule=rule).broken == {"rule": {("SW405", "s")}}


def test_the_programs_are_worth_asking_about() -> None:
    """Guardrails that are broken, that hold by their conditions alone, and that hold anyhow."""
    met: Counter[str] = Counter()
    for seed in range(300):
        data = small_program(seed)
        found, unseen = truth(data), truth(data, blind=True)
        for rule in unseen.broken:
            met["broken" if found.broken[rule] else "by conditions" if unseen.broken[rule] else "anyhow"] += 1
        met.update(code for places in found.broken.values() for code, _ in places)
    assert min(met[kind] for kind in ("broken", "by conditions", "anyhow")) > 0.19 * 600, met
    assert all(met[code] for code in RULE_CODES), met


@pytest.mark.parametrize("seed", range(40))
def test_what_happens_on_the_machine_is_in_the_truth(seed: int) -> None:
    """Each rule by itself: the machine stops at the first that is broken."""
    data = small_program(seed)
    found = truth(data)
    for rule in data["guardrails"]:
        places = {step for _, step in found.broken[rule["name"]] | found.debatable[rule["name"]]}
        for number in range(15):
            run = Chance({**data, "guardrails": [rule]}, (seed, number)).run()
            assert run.step in found.reached or run.status == "BUDGET_EXCEEDED"
            assert run.reason != "guardrail" or run.step in places
            assert run.reason != "uncovered" or run.step in found.uncovered
            assert not run.broken or run.step in places


def test_a_program_is_made_smaller() -> None:
    data = small_program(3)
    smallest = shrink(data, lambda less: any(step["type"] == "tool" for step in less["steps"]))
    assert len(smallest["steps"]) == 1
    assert smallest["guardrails"] == []
