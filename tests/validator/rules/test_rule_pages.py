"""The documentation of the rules: every page has its parts, every example does what its page says.

To write specs/rules.md anew: `python -m stepward.validator.rules.pages > specs/rules.md`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

import pytest

from commands import check, put
from paths import ROOT
from stepward.validator import rules
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import HEADINGS, Rule
from stepward.validator.rules.pages import rules_page
from stepward.validator.rules.registry import RULE_BY_CODE, RULES
from stepward.validator.validator import unreadable, validate_document
from stepward.vm import DocumentError, Policy
from stepward.vm.reading.files import read_text

TABLE = """
SW001 unreadable
SW002 schema
SW003 duplicate-key
SW004 too-large
SW005 duplicate-id
SW006 name-collision
SW101 missing-target
SW102 unreachable-step
SW103 infeasible-step warning
SW104 cycle-without-exit
SW105 unbounded-cycle
SW106 ambiguous-arm
SW107 no-failure-ending warning
SW108 same-branches warning
SW109 impossible-order
SW110 impossible-call
SW111 unhandled-error warning
SW112 unused-catch
SW113 long-list warning
SW201 undefined-variable
SW202 maybe-undefined
SW203 type-mismatch
SW204 quoted-reference
SW205 impossible-value
SW206 undeclared-tool
SW207 tool-arguments
SW208 sensitive-to-model
SW209 unguarded-text-to-effect warning
SW210 undeclared-input warning
SW211 foreign-placeholder
SW212 never-read warning
SW213 no-manifest
SW214 unchanged-carry warning
SW221 function-mismatch
SW222 key-not-taken warning
SW301 condition-syntax
SW302 uncovered-condition
SW303 constant-condition warning
SW304 shadowed-case warning
SW305 overlapping-cases
SW401 guardrail-bypassed
SW402 guardrail-stale
SW403 forbidden-state
SW404 repeated-effect
SW405 missing-follow-up
SW406 exclusive-broken
SW407 vacuous-guardrail
SW408 unproved
SW409 policy-contradiction
SW501 parallel-race
SW502 sibling-read
SW503 retried-effect
SW504 effect-in-loop warning
SW505 fallback-for-effect
SW601 budget-too-small
SW603 missing-deadline
SW701 unused-suppression warning
SW702 unused-waiver warning
SW703 unknown-tool-in-policy warning
SW704 stale-baseline warning
SW901 unconfirmed-witness
SW902 refused-proof
SW903 internal-error
"""
"""The codes, as the design states them: they never change meaning."""

FOUND_BY_NOBODY = {"SW901", "SW902", "SW903"}
"""What no program has without a bug of ours: some tests plant one."""

FOUND_BY_THE_COMMAND = {"SW221", "SW222", "SW701", "SW702", "SW703", "SW704"}
"""What no validator finds: whether something silences a finding is known when every finding is there, and functions are
compared with the option `--tools` alone."""

BESIDE = {"SW304": {"SW103"}, "SW502": {"SW202"}, "SW901": {"SW401"}}
"""Other findings that an example can't be without, by code: no run gets to the step of a branch that is never taken."""

LONGEST_EXAMPLE = 20
SENTENCES = range(2, 11)
LONGEST_SENTENCE = 40
LONGEST_PART = 125
"""In words. A part may have more sentences if they are short."""


class Part(NamedTuple):
    """What stands under one heading."""

    text: str
    programs: tuple[str, ...]
    policies: tuple[str, ...]
    tools: tuple[str, ...]
    baselines: tuple[str, ...]


def parts_of(rule: type[Rule]) -> dict[str, Part]:
    pieces = re.split(r"^## (.*)$", rule.documentation(), flags=re.MULTILINE)
    return {heading: part(text) for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def part(text: str) -> Part:
    blocks = re.findall(r"^```([a-z ]+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} <= {"yaml", "text", "yaml policy", "python", "json"}
    return Part(
        text.strip(),
        tuple(block for kind, block in blocks if kind in ("yaml", "text")),
        tuple(block for kind, block in blocks if kind == "yaml policy"),
        tuple(block for kind, block in blocks if kind == "python"),
        tuple(block for kind, block in blocks if kind == "json"),
    )


def policies_of(rule: type[Rule]) -> list[Policy]:
    """Return the policies of a page; they apply to all its programs, except where a heading has its own."""
    parts = parts_of(rule)
    texts = parts["Use instead"].policies or [text for part in parts.values() for text in part.policies]
    return [Policy.from_dict(read_text("policy.yaml", text, is_json=False)[0].data) for text in texts]


def findings(program: str, policies: list[Policy]) -> tuple[Finding, ...]:
    try:
        (document,) = read_text("example.yaml", program, is_json=False)
    except DocumentError as error:
        return unreadable(error).findings
    return validate_document(document, policies).findings


def codes(program: str, policies: list[Policy]) -> set[str]:
    return {finding.code for finding in findings(program, policies)}


def each(rules: Iterable[type[Rule]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", tuple(rules), ids=lambda rule: rule.code)


every_rule = each(RULES)


def test_codes_names_and_severities_are_those_of_the_design() -> None:
    rows = [f"{rule.code} {rule.name}{' warning' * (rule.severity is Severity.WARNING)}" for rule in RULES]
    assert rows == TABLE.split("\n")[1:-1]


def test_codes_are_unique_and_in_order() -> None:
    assert list(RULE_BY_CODE) == sorted({rule.code for rule in RULES})
    assert len(RULE_BY_CODE) == len(RULES) == len({rule.name for rule in RULES})
    assert all(RULE_BY_CODE[rule.code] is rule for rule in RULES)


def test_every_rule_is_registered() -> None:
    for module in iter_modules(rules.__path__):
        import_module(f"{rules.__name__}.{module.name}")
    written = {
        rule for rule in subclasses(Rule) if hasattr(rule, "code") and rule.__module__.startswith(rules.__name__)
    }
    assert not written - set(RULES), "validator/rules/registry.py lists every rule"


def subclasses(base: type[Rule]) -> Iterator[type[Rule]]:
    for rule in base.__subclasses__():
        yield rule
        yield from subclasses(rule)


@every_rule
def test_a_name_is_kebab_case_and_a_page_is_short_with_its_parts_in_order(rule: type[Rule]) -> None:
    assert re.fullmatch(r"SW\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    first, blank, heading = rule.documentation().split("\n")[:3]
    assert first.endswith(".")
    assert not blank
    assert heading == f"## {HEADINGS[0]}"
    parts = parts_of(rule)
    assert tuple(parts) == HEADINGS
    assert all(part.text for part in parts.values())
    assert not any(parts[heading].programs for heading in HEADINGS[:2])
    for heading in HEADINGS[:2]:
        sentences = re.split(r"[.!?](?:\s|$)", re.sub(r"`[^`]*`", "``", parts[heading].text).strip())[:-1]
        words = [len(sentence.split()) for sentence in sentences]
        assert len(sentences) in SENTENCES, heading
        assert max(words) <= LONGEST_SENTENCE, heading
        assert sum(words) <= LONGEST_PART, heading
    for heading in HEADINGS[2:]:
        (program,) = parts[heading].programs
        assert program.count("\n") < LONGEST_EXAMPLE


@each(rule for rule in RULES if rule.code not in FOUND_BY_THE_COMMAND)
def test_an_example_has_its_finding(rule: type[Rule]) -> None:
    (program,) = parts_of(rule)["Example"].programs
    expected = set() if rule.code in FOUND_BY_NOBODY else {rule.code}
    assert codes(program, policies_of(rule)) == expected | BESIDE.get(rule.code, set())


@pytest.mark.skipif(
    importlib.util.find_spec("stepward.validator.gate.suppressions") is None, reason="comments silence nothing yet"
)
@each(rule for rule in RULES if rule.code in FOUND_BY_THE_COMMAND)
@pytest.mark.usefixtures("in_own_folder")
def test_an_example_has_its_finding_by_the_command(rule: type[Rule]) -> None:
    parts = parts_of(rule)
    assert command_codes(parts["Example"]) == {rule.code}
    assert command_codes(parts["Use instead"]) == set()


def command_codes(part: Part) -> set[str]:
    (program,) = part.programs
    put("example.yaml", program)
    options = []
    beside = {"tools": ("tools.py", part.tools), "policy": ("policy.yaml", part.policies)}
    for option, (name, texts) in {**beside, "baseline": ("baseline.json", part.baselines)}.items():
        for text in texts:
            put(name, text)
            options.append(f"--{option}={name}")
    done = check("--isolated", "--output-format=json", *options, ".")
    return {finding["code"] for finding in json.loads(done.stdout)["findings"]}


@every_rule
def test_what_to_use_instead_is_clean(rule: type[Rule]) -> None:
    (program,) = parts_of(rule)["Use instead"].programs
    assert not findings(program, policies_of(rule))


@each(rule for rule in RULES if rule.code in ("SW302", "SW305", "SW401", "SW402", "SW403", "SW404", "SW405", "SW406"))
def test_an_example_of_a_broken_rule_has_its_witness(rule: type[Rule]) -> None:
    (program,) = parts_of(rule)["Example"].programs
    for finding in findings(program, policies_of(rule)):
        assert finding.evidence is not None
        assert finding.evidence.witness is not None


def test_no_page_waits_for_a_later_version() -> None:
    assert not re.findall("this version|later version", rules_page())


def test_the_page_of_all_rules_is_up_to_date() -> None:
    text = (ROOT / "specs/rules.md").read_text(encoding="utf-8")
    assert text == rules_page(), "python -m stepward.validator.rules.pages > specs/rules.md"


def test_the_page_of_all_rules_has_every_rule_once() -> None:
    headings = re.findall(r"^### (.*)$", rules_page(), flags=re.MULTILINE)
    assert headings == [f"{rule.code} {rule.name}" for rule in RULES]
    links = re.findall(r"\]\(#(.*?)\)", rules_page())
    assert links == [heading.lower().replace(" ", "-") for heading in headings]
    assert not re.findall(r"^## (?!All of them$|One by one$)", rules_page(), flags=re.MULTILINE)


@each(rule for rule in RULES if rule.code not in FOUND_BY_NOBODY)
def test_a_rule_has_bad_programs(rule: type[Rule]) -> None:
    """Of SW901 and SW902 there is none: they speak of bugs of ours."""
    folder = ROOT / "specs/programs/bad" / rule.code
    programs = [
        path
        for path in folder.iterdir()
        if path.suffix in {".yaml", ".json", ".py"}
        and not path.name.endswith((".policy.yaml", ".tools.py", ".baseline.json"))
    ]
    assert len(programs) >= 2
