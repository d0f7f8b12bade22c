"""Certificates: each proof can be written down, and code that shares nothing with the engine accepts just those."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from layers import impatient, only
from paths import ROOT
from small_programs import small_program
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.cli import main
from stepward.validator.engine.systems import moves
from stepward.validator.recheck import formulas
from stepward.validator.recheck.certificates import digest, parsed, recheck_data
from stepward.vm import Policy, Program
from stepward.vm.errors import DocumentError
from stepward.vm.language import automata

GOOD = sorted(path for path in (ROOT / "specs/programs/good").iterdir() if path.suffix in (".yaml", ".json"))
BAD = sorted((ROOT / "specs/programs/bad").glob("SW*/*.yaml"))
LOST = ("SW101", "SW106")
"""Findings of programs that do not say where control goes: nobody can check what is proved of them."""
LOAN = """
name: loans
inputs: {income: {type: number, minimum: 0}, sum: {type: integer, minimum: 1, maximum: 90}}
tools:
  rate: {effect: read, returns: {type: string, enum: [low, high]}}
  pay: {effect: write, idempotent: false, args: {sum: {type: integer}}}
guardrails: [{name: low-only, never: {tool: pay}, when: '$risk != "low" or $sum > 50'}]
steps:
  - {id: rate, type: tool, tool: rate, output_key: risk}
  - {id: small, type: condition, condition: $sum <= 50, then: fine, otherwise: stop}
  - {id: fine, type: condition, condition: '$risk == "low"', then: pay, otherwise: stop}
  - {id: pay, type: tool, tool: pay, args: {sum: $sum}}
  - {id: stop, type: end, outcome: failure}
"""


def proofs(program: Program) -> Iterator[dict[str, Any]]:
    """Yield the certificates of a program as they are read back from JSON; none may be missing."""
    for one in ProgramValidator(program, certify=True, recheck=False).validate().properties:
        if one.verdict is Verdict.PROVED:
            assert one.certify is not None
            yield parsed(one.certify().to_json())


def small(seed: int) -> Program:
    return Program.from_dict(small_program(seed))


def written(kind: str) -> dict[str, Any]:
    """Return an accepted certificate of one part of that kind."""
    for data in (one for seed in SEEDS[kind] for one in proofs(small(seed))):
        if [part["kind"] for part in data["parts"]] == [kind]:
            assert recheck_data(data).is_accepted
            return data
    raise AssertionError(f"no certificate is a {kind}")


SEEDS = {
    "cut": [0, 1],
    "table": [3, 7, 9],
    "states": [707, 391, 423],
    "budget": [616, 1274],
    "formula": [459],
    "cases": [0],
}


# -- what the engine proves is accepted --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_every_proof_of_the_examples_is_accepted(path: Path) -> None:
    found = [recheck_data(data) for data in proofs(Program.load(path))]
    assert found
    assert [one.why_not for one in found if not one.is_accepted] == []


@pytest.mark.slow
def test_what_is_proved_of_programs_that_are_wrong_elsewhere_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    count = 0
    for path in BAD:
        try:
            program = Program.load(path)
        except DocumentError:
            continue
        if path.parent.name in LOST:
            continue
        for data in proofs(program):
            assert recheck_data(data).why_not == "", path
            count += 1
    assert count > 60


def test_a_program_that_does_not_say_where_control_goes_has_none_and_that_is_said(tmp_path: Path) -> None:
    for path in (one for one in BAD if one.parent.name in LOST):
        done = run("check", path, "--isolated", "--no-recheck", "--certificates", tmp_path / "proofs")
        assert done.exit_code == 1, path
        assert "0 certificates written" in done.stderr, path
        assert "is proved and has no certificate: the program does not say where control goes (SW101, SW106)" in (
            done.stderr
        )
        assert list((tmp_path / "proofs").iterdir()) == []


CERTIFIED = 120
"""Small programs whose proofs are written down and read again; those of many more are checked in their run."""
RARE = [SEEDS[kind] for kind in ("states", "budget", "formula")]


def all_accepted(seeds: Iterable[int]) -> set[str]:
    kinds: set[str] = set()
    for seed in seeds:
        for data in proofs(small(seed)):
            found = recheck_data(data)
            assert found.is_accepted, f"seed {seed}: {found.claim}: {found.why_not}"
            kinds.update(found.kinds)
    return kinds


def test_every_proof_of_small_programs_is_accepted() -> None:
    """Those of many more are checked by `test_differential.py`, in the run that makes them."""
    assert {"cut", "cases", "table"} <= all_accepted(range(CERTIFIED))
    assert {"states", "budget", "formula"} <= set().union(*(all_accepted(seeds) for seeds in RARE))


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["explicit search", "block formula"])
def test_every_layer_alone_gives_certificates(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    only(monkeypatch, layer)
    kinds = all_accepted(range(40))
    assert kinds & {"states", "formula"}


ACCEPTED = {
    "no run can use up the budget": """
max_steps: 6
tools: {pay: {effect: write, idempotent: false}, look: {effect: read, returns: {type: boolean}}}
guardrails: [{name: rule, followed_by: {first: {tool: pay}, then: {step: last}}, ends: any}]
steps:
  - {id: look, type: tool, tool: look, output_key: more, max_visits: 2, next_step: again, error_step: first}
  - {id: again, type: condition, condition: $more, then: look, otherwise: first}
  - {id: first, type: tool, tool: pay, next_step: last}
  - {id: last, type: tool, tool: pay}
""",
    "no run gets to the step whose condition could fail": """
tools: {pay: {effect: write, idempotent: false}, book: {effect: write, idempotent: true}}
guardrails: [{name: rule, followed_by: {first: {tool: pay}, then: {step: last}}}]
steps:
  - {id: begin, type: set, set: {v: "'b'"}}
  - {id: paid, type: tool, tool: pay}
  - {id: one, type: condition, condition: $v == 'a', then: two, otherwise: last}
  - {id: two, type: condition, condition: $v == 'a', then: last, otherwise: last}
  - {id: last, type: tool, tool: book}
""",
    "an end that the run gets to owes nothing": """
tools: {pay: {effect: write, idempotent: false}, book: {effect: write, idempotent: true}}
guardrails: [{name: rule, followed_by: {first: {step: stop}, then: {tool: book}}, ends: any}]
steps:
  - {id: paid, type: tool, tool: pay, error_step: stop}
  - {id: booked, type: tool, tool: book}
  - {id: stop, type: end}
""",
    "a further round costs what it makes again": """
max_steps: 10
tools:
  ask: {effect: read, returns: {type: boolean}}
  count: {effect: read, returns: {type: integer, minimum: 0, maximum: 3}}
  pay: {effect: write, idempotent: false, args: {x: {type: integer}}}
guardrails: [{name: rule, never: {step: paid}, when: $j + 1 > 2}]
steps:
  - id: both
    type: parallel
    parallel_steps: [{id: paid, type: tool, tool: pay, args: {x: $j}}]
    error_step: more
    next_step: more
  - id: more
    type: parallel
    parallel_steps: [{id: counted, type: tool, tool: count, output_key: j}, {id: asked, type: tool, tool: ask}]
    on_error: retry
    error_step: both
""",
    "all numbers of a class are whole where nothing gives others": """
tools:
  count: {effect: read, returns: {type: integer, minimum: 0, maximum: 3}}
  pay: {effect: write, idempotent: false, args: {x: {type: integer}}}
guardrails: [{name: rule, followed_by: {first: {step: paid}, then: {step: booked}}}]
steps:
  - {id: begin, type: set, set: {j: 1}, max_visits: 3, next_step: asked}
  - {id: asked, type: condition, condition: $j > 1, then: begin, otherwise: count}
  - {id: count, type: tool, tool: count, output_key: j, next_step: paid}
  - {id: paid, type: tool, tool: pay, args: {x: 1}}
  - {id: booked, type: tool, tool: pay, args: {x: $j}}
""",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_what_a_certificate_leaves_to_its_checker_is_seen(text: str) -> None:
    found = [recheck_data(data) for data in proofs(Program.from_yaml(text)) if data["proves"]["rule"] == "rule"]
    assert [said.why_not for said in found] == [""]


TIGHT = [
    ("{type: string, maxLength: 0}", "$i == ''"),
    ("{type: string, maxLength: 0}", "$i != 'x'"),
    ("{type: string, maxLength: 0}", "'abc' contains $i"),
    ("{type: object, properties: {a: {type: string, maxLength: 0}}, required: [a]}", "$i.a == ''"),
    ("{type: string, enum: [abc, d], maxLength: 1}", "$i contains 'd'"),
    ("{type: integer, minimum: 3, maximum: 3}", "$i == 3"),
]


@pytest.mark.parametrize(("spec", "holds"), TIGHT)
def test_a_type_of_one_value_is_known_to_be_of_one_value(spec: str, holds: str) -> None:
    program = Program.from_yaml(f"""
inputs: {{i: {spec}}}
tools: {{pay: {{effect: write, idempotent: true}}}}
guardrails: [{{name: rule, never: {{tool: pay}}}}]
steps:
  - {{id: asked, type: condition, condition: "{holds}", then: stop, otherwise: pay}}
  - {{id: pay, type: tool, tool: pay}}
  - {{id: stop, type: end}}
""")
    found = [recheck_data(data) for data in proofs(program) if data["proves"]["rule"] == "rule"]
    assert [said.why_not for said in found] == [""]


def test_names_that_are_copied_to_and_fro_are_looked_at_once() -> None:
    """With two sources each, the ways that a value may have come double with every copy."""
    program = small(3563)
    assert [step.set for step in program.steps if step.type == "set"][2:] == [
        {"seen": "$done", "done": "$seen"},
        {"done": "$seen", "seen": "$done"},
    ]
    started = time.process_time()
    assert all(recheck_data(data).is_accepted for data in proofs(program))
    assert time.process_time() - started < 10


def test_a_policy_is_certified_with_the_program() -> None:
    policy = Policy.from_dict(
        {
            "policy": "house",
            "allow": [{"tool": "rate"}, {"tool": "pay", "when": "$args.sum <= 50"}],
            "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}],
            "waivers": [{"program": "x", "rule": "once", "reason": "none", "expiry": "2030-01-01"}],
        }
    )
    program = Program.from_dict(yaml_of(LOAN))
    report = ProgramValidator(program, [policy], certify=True).validate()
    held = {(one.name, one.policy): one for one in report.properties}
    for key in (("allow", "house"), ("at_most_once", "house"), ("never", None)):
        one = held[key]
        assert one.certify is not None, one
        data = parsed(one.certify().to_json())
        assert "waivers" not in data["policies"][0]
        assert recheck_data(data).why_not == ""


def yaml_of(text: str) -> dict[str, Any]:
    import yaml

    data = yaml.safe_load(text)
    assert isinstance(data, dict)
    return data


def test_a_plain_check_keeps_no_grounds() -> None:
    report = ProgramValidator(small(3)).validate()
    assert all(one.certify is None and one.evidence.certificate == () for one in report.properties)


# -- what was changed is refused ---------------------------------------------------------------------------------------


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """Name the program by its new digest, as somebody would who knows how."""
    policies = tuple(Policy.from_dict(one) for one in data["policies"])
    data["digest"] = digest(Program.from_dict(data["program"]), policies)
    return data


def rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    found = data["parts"][0]["rows"]
    assert isinstance(found, list)
    return found


def drop_row(data: dict[str, Any]) -> None:
    rows(data).pop(0)


def drop_last_states(data: dict[str, Any]) -> None:
    row = next(row for row in rows(data)[::-1] if row.get("states") not in ("any", []))
    row["states"] = row["states"][1:]


def change_memory(data: dict[str, Any]) -> None:
    for row in rows(data):
        row["memory"] = [1 for _ in row["memory"]]


def forget_classes(data: dict[str, Any]) -> None:
    data["parts"][0]["references"] = []


def change_bound(data: dict[str, Any]) -> None:
    classes = data["parts"][0]["references"][0]["classes"]
    classes[0] = {"number": {"above": 1, "below": 1}}


def anything_may_be(data: dict[str, Any]) -> None:
    for row in rows(data):
        row.pop("costs", None)
        row["states"] = "any"


def cheaper(data: dict[str, Any]) -> None:
    row = next(row for row in rows(data)[1:] if "costs" in row)
    row["costs"] = [[cost + 3, states] for cost, states in row["costs"]]


def a_larger_budget(data: dict[str, Any]) -> None:
    data["program"]["max_steps"] = 500
    resealed(data)


def satisfiable(data: dict[str, Any]) -> None:
    data["parts"][0]["scripts"] = [{"shows": "all is well", "text": "(set-logic ALL)\n(assert true)\n(check-sat)\n"}]


def no_scripts(data: dict[str, Any]) -> None:
    data["parts"][0]["scripts"] = []


def a_command(data: dict[str, Any]) -> None:
    text = '(set-logic ALL)\n(echo "unsat")\n(check-sat)\n'
    data["parts"][0]["scripts"] = [{"shows": "all is well", "text": text}]


def no_parts(data: dict[str, Any]) -> None:
    data["parts"] = []


def another_program(data: dict[str, Any]) -> None:
    data["program"]["steps"] = data["program"]["steps"][::-1]


def another_rule(data: dict[str, Any]) -> None:
    data["proves"]["rule"] = "no-such-rule"


def unknown_field(data: dict[str, Any]) -> None:
    data["parts"][0]["trust_me"] = True


def later_version(data: dict[str, Any]) -> None:
    data["version"] = 2


TAMPERED: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("cut", drop_row),
    ("cut", change_memory),
    ("cut", no_parts),
    ("cut", another_program),
    ("cut", another_rule),
    ("cut", unknown_field),
    ("cut", later_version),
    ("table", drop_row),
    ("table", drop_last_states),
    ("table", forget_classes),
    ("table", change_bound),
    ("table", anything_may_be),
    ("states", drop_row),
    ("states", drop_last_states),
    ("states", anything_may_be),
    ("budget", drop_row),
    ("budget", cheaper),
    ("budget", anything_may_be),
    ("budget", a_larger_budget),
    ("formula", satisfiable),
    ("formula", no_scripts),
    ("formula", a_command),
]


@pytest.fixture(scope="module")
def accepted() -> dict[str, dict[str, Any]]:
    return {kind: written(kind) for kind in SEEDS}


@pytest.mark.parametrize(("kind", "change"), TAMPERED, ids=lambda one: getattr(one, "__name__", one))
def test_a_tampered_certificate_is_refused(
    accepted: dict[str, dict[str, Any]], kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    data = deepcopy(accepted[kind])
    change(data)
    assert not recheck_data(data).is_accepted


def loan() -> dict[str, Any]:
    return next(proofs(Program.from_dict(yaml_of(LOAN))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("$sum <= 50", "$sum <= 51"),
        ("$sum <= 50", "$sum >= 50"),
        ('$risk == \\"low\\"', '$risk != \\"low\\"'),
        ('"then": "fine"', '"then": "pay"'),
        ('"enum": ["low", "high"]', '"enum": ["low", "high", "unknown"]'),
        ("or $sum > 50", "or $sum > 49"),
    ],
)
def test_a_certificate_of_another_program_is_refused(old: str, new: str) -> None:
    data = loan()
    assert recheck_data(data).why_not == ""
    text = json.dumps(data)
    assert old in text
    changed = parsed(text.replace(old, new))
    if "unknown" in new:
        changed["program"]["steps"][2]["condition"] = '$risk != "high"'
    assert not recheck_data(resealed(changed)).is_accepted


def flipped(step: Any, way: Any, true: Callable[..., tuple[int, ...]] = moves.outcomes) -> tuple[int, ...]:
    found = true(step, way)
    if step.condition is None or way.kind != "branch":
        return found
    return (-1,) if way.branch == "then" else (0,)


def without_failures(self: Any, number: int, step: Any, ways: Any, true: Any = moves.Moves._call) -> Iterator[Any]:
    return (one for one in true(self, number, step, ways) if one.transition.kind != "failed")


MISTAKES: dict[str, tuple[Any, str, Any, range]] = {
    "a branch is flipped": (moves, "outcomes", flipped, range(12)),
    "failures are forgotten": (moves.Moves, "_call", without_failures, range(50, 60)),
    "nothing goes stale": (automata, "_stale_by", lambda guard, meaning: frozenset(), range(15, 40)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_broken_engine_proves_is_refused(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    owner, name, wrong, seeds = MISTAKES[mistake]
    true = {
        (seed, number): one.verdict
        for seed in seeds
        for number, one in enumerate(ProgramValidator(small(seed), recheck=False).validate().properties)
    }
    monkeypatch.setattr(owner, name, wrong)
    caught = 0
    for seed in seeds:
        for number, one in enumerate(ProgramValidator(small(seed), certify=True, recheck=False).validate().properties):
            if one.verdict is Verdict.PROVED and true[seed, number] is Verdict.VIOLATED:
                assert one.certify is not None
                assert not recheck_data(parsed(one.certify().to_json())).is_accepted, f"seed {seed}"
                caught += 1
    assert caught, "the mistake shows nowhere: look for other seeds"


# -- who checks --------------------------------------------------------------------------------------------------------


def test_z3_checks_formulas_where_cvc5_is_absent(
    accepted: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cvc5")
    assert "cvc5" in recheck_data(accepted["formula"]).checkers
    monkeypatch.setattr(formulas, "find_spec", lambda name: None)
    formulas.solver.cache_clear()
    try:
        found = recheck_data(accepted["formula"])
    finally:
        monkeypatch.undo()
        formulas.solver.cache_clear()
    assert found.is_accepted
    assert "z3" in found.checkers


# -- the command -------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loan.yaml").write_text(LOAN, encoding="utf-8")
    done = run("check", tmp_path / "loan.yaml", "--isolated", "--exit-zero", "--certificates", tmp_path / "proofs")
    assert "3 certificates written" in done.stderr, done.stderr
    return tmp_path / "proofs"


def test_the_command_writes_and_checks(folder: Path) -> None:
    done = run("recheck", folder)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].split() == ["program", "property", "about", "kind", "checked", "by", "verdict"]
    assert done.stdout.endswith("3 certificates: all accepted\n")
    data = json.loads(run("recheck", folder, "--output-format", "json").stdout)
    assert data["summary"] == {"certificates": 3, "accepted": 3, "refused": 0}
    assert {one["verdict"] for one in data["certificates"]} == {"accepted"}


def test_the_same_check_writes_the_same_files(folder: Path) -> None:
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    run("check", folder.parent / "loan.yaml", "--isolated", "--exit-zero", "--certificates", folder)
    assert before == {one.name: one.read_bytes() for one in folder.iterdir()}


def test_a_folder_with_other_files_is_refused(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    done = run("check", folder.parent / "loan.yaml", "--isolated", "--certificates", folder)
    assert done.exit_code == 2
    assert "holds `notes.txt`, which is no certificate" in done.stderr
    assert "was not looked at" in run("recheck", folder).stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"version": 1}',
        b'{"version": "1"}',
        b"[" * 5000,
        b'{"version": 1, "version": 1}',
        b"1e9999",
    ],
)
def test_a_damaged_file_is_refused_in_words(folder: Path, content: bytes) -> None:
    (folder / "broken.certificate.json").write_bytes(content)
    done = run("recheck", folder)
    assert done.exit_code == 1, done.output
    assert "broken.certificate.json: " in done.stdout
    assert "4 certificates: 1 certificate refused" in done.stdout


def test_nothing_to_check_again(tmp_path: Path) -> None:
    assert run("recheck", tmp_path).exit_code == 3
    assert run("recheck", tmp_path / "nowhere").exit_code == 2


def test_the_page_shows_a_certificate_that_is_accepted() -> None:
    page = (ROOT / "specs/certificates.md").read_text(encoding="utf-8")
    program, certificate = page.split("```yaml\n")[1].split("```")[0], page.split("```json\n")[1].split("```")[0]
    data = next(proofs(Program.from_dict(yaml_of(program))))
    shown = json.loads(certificate)
    assert shown == {name: data[name] for name in ("version", "proves", "parts")}
