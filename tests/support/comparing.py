"""What the checker says of a small program, held against the truth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from brute_bodies import flat
from brute_force import Truth, truth
from small_language import NotSmallError
from stepward.validator import Finding, ProgramValidator, Report, Verdict
from stepward.validator.context import Context
from stepward.vm import Program

RULE_CODES = ("SW401", "SW402", "SW403", "SW404", "SW405", "SW406")


ILLEGAL = re.compile(r"SW0\d\d|SW10[1256]|SW20[134567]|SW210|SW301")

ASKED_FOR = re.compile(r"\.error_name` is never|`\$\w+\.(errors|output)\[\d\]\S*` never exists")
"""Errors that no item has, and items of longer lists, are asked for on purpose."""


@dataclass
class Comparison:
    """Where the checker and the truth part, in words, and what was counted."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def checked(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data)).validate()


def checked_with_dead(data: dict[str, Any]) -> tuple[Report, set[str]]:
    """Return the report on a program, and its dead steps, which the check has found already."""
    program = Program.from_dict(data)
    validator = ProgramValidator(program)
    report = validator.validate()
    return report, {program.layout.steps[number].id for number in validator._context.proofs.dead.infeasible}


def unchecked(data: dict[str, Any]) -> Report:
    """Return what the engine says alone."""
    return ProgramValidator(Program.from_dict(data), recheck=False).validate()


def compare(
    data: dict[str, Any],
    check: Callable[[dict[str, Any]], Report] = checked,
    *,
    is_rechecked: bool | None = None,
    dead: set[str] | None = None,
) -> Comparison:
    """Hold what the checker says of a program against what happens.

    `is_rechecked` says whether `check` has its proofs rechecked, as `checked` does. `dead` are its dead steps, where
    they are known.
    """
    result = Comparison()
    result.counts["all skipped"] += 1
    try:
        found = truth(data)
    except NotSmallError:
        result.counts["skipped"] += 1
        return result
    try:
        if check is checked and dead is None:
            report, dead = checked_with_dead(data)
        else:
            report = check(data)
    except Exception as error:  # whatever it is, it is one more thing to report
        result.wrong.append(f"the checker breaks: {type(error).__name__}: {error}")
        return result
    broken = [one.message for one in report.findings if one.code == "SW903"]
    if broken:  # what else is reported or not follows from that
        result.wrong += [f"the checker breaks: {message}" for message in broken]
        return result
    result.wrong += illegal(report) + refused(
        report, is_rechecked=check is checked if is_rechecked is None else is_rechecked
    )
    compare_rules(data, report, found, result)
    compare_coverage(report, found, result)
    compare_proofs(data, report, found, result)
    compare_allowed(data, report, found, result)
    compare_warnings(report, found, dead_steps(data) if dead is None else dead, result)
    compare_readings(data, report, found, result)
    result.counts["all unconfirmed"] += 1
    result.counts["unconfirmed"] += any(finding.code == "SW901" for finding in report.findings)
    return result


def illegal(report: Report) -> list[str]:
    """Return what makes a program one that nobody would ask about."""
    unfit = [one.message for one in report.findings if ILLEGAL.fullmatch(one.code)]
    found = [message for message in unfit if not ASKED_FOR.search(message)]
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
    # A rule that asks for an `end` step is said once, and not at each step that it protects.
    once = {one.message.split("`")[1] for one in report.findings if one.code == "SW407"}
    once &= set(_rules_that_require(data))
    result.counts["unsaid debatable"] += len(debatable - true - said)
    result.counts["all unsaid debatable"] += len(debatable - true)
    for rule, code, step in sorted(said - true - debatable):
        if code != "SW408":
            result.wrong.append(f"false alarm: {code} of {rule} at {step}")
    for rule, code, step in sorted(true - said):
        if (rule, step) not in opened and rule not in once:
            result.wrong.append(f"missed: {code} of {rule} at {step}")


def _rules_that_require(data: Any) -> Iterator[str]:
    """Yield the names of the rules with `requires` of a program, and of all in it."""
    for one in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _rules_that_require(one)
    if isinstance(data, dict) and "requires" in data and "name" in data:
        yield data["name"]


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
    return {program.layout.steps[number].id for number in Context(program).proofs.dead.infeasible}


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
            path = finding.place.path
            number = path[path.index("cases") + 1] + 1  # type: ignore[operator]
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
    owners = {part["id"]: step["id"] for step in flat(data["steps"]) for part in step.get("parallel_steps", ())}
    true = {(owners.get(reader, reader), name) for reader, name in found.undefined}
    said = {
        (owners.get(finding.step or "", finding.step or ""), finding.message.split("`")[1].removeprefix("$"))
        for finding in report.findings
        if finding.code == "SW202"
    }
    result.wrong += [f"missed: SW202 at {step}: ${name}" for step, name in sorted(true - said)]
    result.counts["all infeasible SW202"] += len(said)
    result.counts["infeasible SW202"] += len(said - true)


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
