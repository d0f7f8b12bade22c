"""The cache says the same as a check without it, in every format."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from caches import POLICY, entries, put_programs
from commands import CLEAN, check, put
from layers import impatient
from paths import PROGRAMS
from sizes import size
from stepward.validator.findings import Report
from stepward.validator.report import FORMATS
from stepward.vm import Policy
from stepward.vm.reading.document import Document

pytestmark = pytest.mark.usefixtures("in_own_project")


def timeless(text: str) -> str:
    """Leave out how long it took."""
    return re.sub(r'("seconds": |time=")[\d.e-]+', r"\1", text)


def check_once(patch: pytest.MonkeyPatch) -> None:
    """Let a document that was checked give the same report again: what is held then is what is kept of it."""
    from stepward.validator import validator

    reports: dict[tuple[str, str], Report] = {}
    real = validator.validate_document

    def validate(document: Document, policies: tuple[Policy, ...] = (), **options: Any) -> Report:
        asked = (document.name, repr(document.data))
        if policies:  # what is kept names the very documents of these
            return real(document, policies, **options)
        if asked not in reports:
            reports[asked] = real(document, **options)
        return reports[asked]

    patch.setattr(validator, "validate_document", validate)


@pytest.mark.parametrize(
    "codes",
    [("SW001", "SW202", "SW205", "SW409", "SW701"), pytest.param(None, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_every_format_says_the_same_from_the_cache(
    codes: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    check_once(monkeypatch)
    if codes is None:
        impatient(monkeypatch)
    checked: list[str] = request.getfixturevalue("checked")
    put_programs(Path.cwd(), codes=codes)
    put("notes.yaml", "steps_of_a_dance: [left, right]\n")
    in_json = check("--output-format=json", "--no-cache")
    properties = json.loads(in_json.stdout)["properties"]
    unknown = {Path(one["file"]).name for one in properties if one["verdict"] == "unknown"}
    assert bool(unknown) == (codes is None)
    all_options = [f"--output-format={name}" for name in FORMATS] + ["--statistics"]
    # The other formats tell what these three are made from, and by day the first of them.
    for options in (
        all_options
        if codes is not None
        else [f"--output-format={name}" for name in ("json", "full", "sarif")[: size(1, 3)]]
    ):
        without = in_json if options == "--output-format=json" else check(options, "--no-cache")
        cold = check(options)
        checked.clear()
        warm = check(options)
        assert (warm.stderr, warm.exit_code) == (cold.stderr, cold.exit_code), options
        assert warm.stdout == cold.stdout or unknown, options
        assert timeless(warm.stdout) == timeless(cold.stdout) == timeless(without.stdout), options
        # What is unknown the next run may know: that is the only thing that is looked at again.
        assert set(checked) <= unknown, options


def test_witnesses_are_written_from_the_cache(checked: list[str]) -> None:
    put_programs(Path.cwd(), codes=("SW401",))
    check("--witnesses", "cold")
    checked.clear()
    check("--witnesses", "warm")
    assert not checked
    assert len(list(Path("cold").iterdir())) >= 5
    for file in Path("cold").iterdir():
        assert (Path("warm") / file.name).read_bytes() == file.read_bytes()


def test_certificates_are_written_in_spite_of_the_cache(checked: list[str]) -> None:
    shutil.copy(PROGRAMS / "good/customer_refund.yaml", ".")
    check()
    kept = entries()
    result = check("--certificates", "proofs")
    assert result.exit_code == 0
    assert "certificates written" in result.stderr
    assert list(Path("proofs").iterdir())
    assert entries() == kept


def test_fixes_are_made_from_the_cache(checked: list[str]) -> None:
    text = CLEAN.replace(
        "{id: a, type: end}", "{id: ask, type: llm, prompt: x, next_step: finsh}\n  - {id: finish, type: end}"
    )
    path = put("p.yaml", text)
    assert "would fix 1 finding" in check("--diff").stderr
    checked.clear()
    assert "fixed 1 finding" in check("--fix").stderr
    assert path.read_text() == text.replace("finsh", "finish")


def test_what_is_no_program_is_counted_and_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    put("good.yaml", CLEAN)
    put("pipeline.yaml", "jobs: {a: {steps: [{run: make}]}}\n")
    put("code.py", 'from stepward.vm import Program\nP = Program.from_dict({"steps": [], "name": make()})\n')
    put("other.yaml", "a: 1\n")
    cold = check()
    assert "(3 files skipped; 1 program in Python not checked; see `--statistics`)" in cold.stdout
    monkeypatch.setattr("stepward.validator.gate.checking.read_content", lambda *_, **__: pytest.fail("it was read"))
    assert check().stdout == cold.stdout


def test_missing_policies_and_idle_rules_are_reported_from_the_cache(checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", "policy: p\nguardrails:\n  - {name: one, at_most_once: {tool: mail}}\n")
    cold = check("--policy", "policy.yaml", ".")
    assert "SW407" in cold.stdout
    checked.clear()
    assert check("--policy", "policy.yaml", ".").stdout == cold.stdout
    assert not checked


@pytest.mark.parametrize("text", [None, "policy: [", "policy: p\nguardrail: []\n"])
def test_a_file_that_is_no_policy_is_reported_with_a_warm_cache(text: str | None) -> None:
    put("good.yaml", CLEAN)
    policy = put("policy.yaml", POLICY)
    check("--policy", "policy.yaml", "good.yaml")
    policy.unlink()
    if text is not None:
        policy.write_text(text)
    told = check("--policy", "policy.yaml", "good.yaml")
    without = check("--policy", "policy.yaml", "good.yaml", "--no-cache")
    assert told.exit_code == 2
    assert (told.stdout, told.stderr) == (without.stdout, without.stderr)


def test_broken_settings_and_policies_do_not_matter_where_there_is_no_program() -> None:
    put("a/pipeline.yaml", "jobs: {a: {steps: []}}\n")
    put("a/stepward.toml", 'policies = ["gone.yaml"]\n')
    for _ in range(2):
        assert check("--skip-non-programs", "a/pipeline.yaml").exit_code == 0
