"""The cache of results: the same reports as without it, never a wrong one, and nothing heavy for a clean folder."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from layers import impatient
from stepward.validator import ProgramValidator
from stepward.validator.analysis.bounds import Most, ProgramBounds, ToolBounds, Way
from stepward.validator.cli import main
from stepward.validator.engine.witnesses.witness import Witness
from stepward.validator.findings import (
    Edit,
    Evidence,
    Finding,
    Fix,
    Label,
    Move,
    Property,
    Report,
    Severity,
    Verdict,
)
from stepward.validator.gate import cache as cache_module
from stepward.validator.gate import version
from stepward.validator.gate.cache import FOLDER, Cache
from stepward.validator.gate.checking import Run, RunResult
from stepward.validator.gate.kept import report_from_data, report_to_data
from stepward.validator.gate.settings import Configurations
from stepward.vm import Place, Policy, Program, Span
from stepward.vm.reading.document import Document
from stepward.vm.values import freeze

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "specs/programs"
STEPWARD = Path(sys.executable).parent / "stepward"
CLEAN = "name: good\ninputs: {}\nsteps:\n  - {id: a, type: end}\n"
BAD = "name: bad\ninputs: {}\nsteps:\n  - {id: a, type: llm, prompt: x, next_step: gone}\n"
POLICY = "policy: p\nguardrails:\n  - {name: no-mail, never: {tool: mail}}\n"
WAIVED = """\
policy: p
guardrails: [{name: no-mail, never: {tool: mail}}]
waivers: [{program: mails, rule: no-mail, reason: it is tried out, expiry: 2026-06-30}]
"""
MAILS = """\
name: mails
inputs: {}
tools: {mail: {effect: write, idempotent: true, args: {}, returns: {type: string}}}
steps:
  - {id: send, type: tool, tool: mail, output_key: sent, next_step: done}
  - {id: done, type: end}
"""


@pytest.fixture(autouse=True)
def _a_user_and_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWARD_NO_CACHE")
    monkeypatch.delenv("STEPWARD_CACHE_KEY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def put(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], catch_exceptions=False)


def entries(folder: str = FOLDER) -> list[Path]:
    return sorted(path for path in Path(folder).glob("*") if re.fullmatch("[0-9a-f]{64}", path.name))


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the documents that were really checked, since the list was cleared."""
    from stepward.validator import validator

    seen: list[str] = []
    real = validator.validate_document

    def validate(document: object, *arguments: object, **options: object) -> Report:
        seen.append(Path(document.name).name)  # type: ignore[attr-defined]
        return real(document, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(validator, "validate_document", validate)
    return seen


def is_hit(checked: list[str], *arguments: str) -> bool:
    checked.clear()
    check(*arguments)
    return not checked


# -- the same reports --------------------------------------------------------------------------------------------------

FORMATS = ("full", "concise", "github", "gitlab", "sarif", "json", "junit")


def put_programs(folder: Path, *, codes: tuple[str, ...] | None) -> None:
    """Copy the examples, each bad one beside a configuration that names its policy."""
    for path in sorted((PROGRAMS / "bad").rglob("*")):
        if path.suffix in {".yaml", ".json", ".py"} and not path.name.endswith(".policy.yaml"):
            code = path.parent.name
            if codes is not None and code not in codes:
                continue
            home = folder / code / path.name
            home.mkdir(parents=True)
            shutil.copy(path, home)
            policy = path.with_suffix(".policy.yaml")
            if policy.exists():
                shutil.copy(policy, home)
                (home / "stepward.toml").write_text(f'policies = ["{policy.name}"]\n')
    if codes is None:
        shutil.copytree(PROGRAMS / "good", folder / "good")


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
    [("SW001", "SW106", "SW202", "SW409", "SW701"), pytest.param(None, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_every_format_says_the_same_from_the_cache(
    codes: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if codes is None:
        check_once(monkeypatch)
        impatient(monkeypatch)
    checked: list[str] = request.getfixturevalue("checked")
    put_programs(Path.cwd(), codes=codes)
    put("notes.yaml", "steps_of_a_dance: [left, right]\n")
    properties = json.loads(check("--output-format=json", "--no-cache").stdout)["properties"]
    unknown = {Path(one["file"]).name for one in properties if one["verdict"] == "unknown"}
    assert bool(unknown) == (codes is None)
    all_options = [f"--output-format={name}" for name in FORMATS] + ["--statistics"]
    # The other formats tell what these three are made from.
    for options in (
        all_options if codes is not None else [f"--output-format={name}" for name in ("full", "sarif", "json")]
    ):
        without = check(options, "--no-cache")
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
    assert "(3 files skipped; 1 program in Python not read: not literal)" in cold.stdout
    monkeypatch.setattr("stepward.validator.gate.checking.read_content", lambda *_, **__: pytest.fail("it was read"))
    assert check().stdout == cold.stdout


def test_policies_are_missed_in_vain_and_idle_rules_told_from_the_cache(checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", "policy: p\nguardrails:\n  - {name: one, at_most_once: {tool: mail}}\n")
    cold = check("--policy", "policy.yaml", ".")
    assert "SW407" in cold.stdout
    checked.clear()
    assert check("--policy", "policy.yaml", ".").stdout == cold.stdout
    assert not checked


@pytest.mark.parametrize("text", [None, "policy: [", "policy: p\nguardrail: []\n"])
def test_a_policy_that_is_none_is_told_with_a_warm_cache(text: str | None) -> None:
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


def witness_of(path: Path) -> Witness:
    (finding,) = ProgramValidator(Program.load(path)).validate().findings
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    return finding.evidence.witness


def whole_report(document: Document) -> Report:
    """Return a report in which nothing has its default but what is not kept."""
    value = freeze({"a": [1, Decimal("0.10"), 10**40, None, True, "é\n"], "b": {}})
    evidence = Evidence(
        layer="graph",
        path=(Move("a", "branch then"), Move("b", "")),
        cut=("a → b",),
        reason="so it is",
        state=(("$x", value), ("$y", Decimal("1e-9"))),
        witness=witness_of(PROGRAMS / "bad/SW401/obvious.yaml"),
        unconfirmed="it went on",
    )
    finding = Finding(
        code="SW401",
        name="guardrail-bypassed",
        severity=Severity.WARNING,
        message="half a pair \ud800",
        help="do",
        place=Place(("steps", 0, "when"), key=True, within=(3, 5)),
        step="a",
        related=(
            Label(Place(("x",)), "here", document, Span(1, 2, 3, 4)),
            Label(Place(), "there", None, Span(1, 1, 1, 1)),
        ),
        evidence=evidence,
        policy="p/r",
        waiver="for a while",
        file="f.yaml",
        span=Span(1, 2, 3, 4),
        path_spans=(Span(1, 2, 3, 4), None),
        fix=Fix("mend it", (Edit(Span(1, 2, 1, 2), "x"), Edit(Span(2, 2, 2, 3), ""))),
    )
    proved = Property(
        "requires",
        "r",
        Verdict.VIOLATED,
        replace(evidence, witness=None),
        0.1,
        "f.yaml",
        policy="p",
        number=2,
        step="a",
    )
    most = Most(None, ("a", "b"))
    bounds = ProgramBounds(
        "n",
        most,
        Most(3),
        {"t": ToolBounds(most, Most(4))},
        Way(1, 2, {"t": 3}),
        "no bound",
        (("a", "b"), ("c",)),
        "f.yaml",
    )
    return Report("n", "f.yaml", (finding,), (proved,), frozenset({("p", "r"), ("p", "q")}), lambda: bounds, (finding,))


NOT_KEPT = {"mend", "certificate", "certify", "measure"}


def parts(value: object) -> Iterator[object]:
    """Yield a value and all that is in it, except witnesses and the like, which have tests of their own."""
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    elif is_dataclass(value) and not isinstance(value, (Witness, Document)):
        for field in fields(value):
            yield from parts(getattr(value, field.name))


def test_a_report_comes_back_whole() -> None:
    document = Policy.from_bytes(POLICY.encode(), "policy.yaml").document
    assert document is not None
    report = whole_report(document)
    for part in parts(report):
        if is_dataclass(part) and not isinstance(part, (Witness, Document, type, Label)):
            for field in fields(part):
                default = field.default_factory() if field.default_factory is not MISSING else field.default
                is_given = getattr(part, field.name) != default or field.name in NOT_KEPT
                assert is_given or part is report.properties[0].evidence, f"{type(part).__name__}.{field.name}"
    data = json.loads(json.dumps(report_to_data(report, [document], with_bounds=True)))
    again = report_from_data(data, "f.yaml", [document].__getitem__)
    assert again.bounds == report.bounds
    assert replace(again, measure=None) == replace(report, measure=None)
    # Equality of findings leaves these out.
    ((was,), (now,)) = report.findings, again.findings
    assert was.evidence is not None
    assert now.evidence is not None
    assert now.fix == was.fix
    assert now.evidence.unconfirmed == was.evidence.unconfirmed
    assert now.evidence.witness is not None
    assert was.evidence.witness is not None
    assert now.evidence.witness.to_json() == was.evidence.witness.to_json()
    assert "bounds" not in {
        name for name, value in report_to_data(report, [document], with_bounds=False).items() if value
    }


# -- never a wrong one -------------------------------------------------------------------------------------------------


def test_a_second_run_finds_what_the_first_kept(checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    assert not is_hit(checked)
    assert is_hit(checked)
    assert is_hit(checked, "good.yaml") is False, "a file that is named has to be a program"
    assert is_hit(checked, "good.yaml")


def test_another_content_name_or_folder_is_another_file(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("sub/good.yaml", CLEAN)
    put("stepward.toml", "")
    check()
    status = path.stat()
    path.write_text(CLEAN.replace("good", "gold"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not is_hit(checked), "same length, same time"
    path.rename("sub/gold.yaml")
    assert not is_hit(checked)
    monkeypatch.chdir("sub")
    assert not is_hit(checked), "reports call it by another name here"
    assert is_hit(checked)
    monkeypatch.chdir("..")
    Path("sub").rename("bus")
    assert not is_hit(checked)
    assert [path.name for path in Path.cwd().iterdir() if path.name == FOLDER] == [FOLDER]
    assert not Path("bus", FOLDER).exists(), "the cache is beside the configuration"


def test_another_place_of_the_whole_project_is_another_file(
    checked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", f"policy: p\napplies_to: ['{tmp_path}/moved/*']\nguardrails: []\nallow: []\n")
    put("mails.yaml", MAILS)
    assert check("mails.yaml", "--policy=policy.yaml").exit_code == 0
    Path.cwd().rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert "SW403" in check("mails.yaml", "--policy=policy.yaml").stdout, "the policy is for files of that path"


def test_every_program_of_a_file_is_kept(checked: list[str]) -> None:
    put("two.yaml", CLEAN + "---\n" + BAD)
    put("three.py", f"A = {TWO_STEPS!r}\nB = {TWO_STEPS!r}\nC = {TWO_STEPS | {'name': 'c'}!r}\n")
    cold = check()
    assert "in 1 of 5 programs" in cold.stdout
    checked.clear()
    assert check().stdout == cold.stdout
    assert not checked


TWO_STEPS = {"name": "p", "inputs": {}, "steps": [{"id": "a", "type": "end"}]}

CHANGES = {
    "select": 'select = ["SW1"]\n',
    "ignore": 'ignore = ["SW210"]\n',
    "fail-on": 'fail-on = "warning"\n',
    "time-limit": "time-limit = 59\n",
    "baseline": 'baseline = "base.json"\n',
    "exclude": 'extend-exclude = ["x/"]\n',
    "policies": 'policies = ["policy.yaml"]\n',
    "per-file-ignores": '[[per-file-ignores]]\nfiles = "x"\ncodes = ["SW504"]\nreason = "why not"\n',
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_settings_never_hit(change: str, checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", POLICY)
    put("base.json", '{"version": 1, "findings": []}')
    put("stepward.toml", "")
    check()
    assert is_hit(checked)
    put("stepward.toml", CHANGES[change])
    assert not is_hit(checked)
    assert is_hit(checked)


@pytest.mark.parametrize(
    "options",
    [
        "--select=SW1",
        "--ignore=SW210",
        "--fail-on=warning",
        "--policy=policy.yaml",
        "--isolated",
        "--statistics",
        "--time-limit=59",
    ],
)
def test_other_options_never_hit(options: str, checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", POLICY)
    put("stepward.toml", "")
    check()
    assert not is_hit(checked, options)
    assert is_hit(checked, options)
    assert is_hit(checked)


def test_a_changed_policy_never_hits_and_its_findings_come_and_go(checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    put("stepward.toml", 'policies = ["policy.yaml"]\n')
    put("policy.yaml", "policy: p\n")
    assert (check().exit_code, check().exit_code) == (0, 0)
    put("policy.yaml", POLICY)
    checked.clear()
    assert check().exit_code == 1
    assert checked == ["mails.yaml"]
    put("policy.yaml", POLICY + "# a comment\n")
    assert not is_hit(checked)
    put("second.yaml", "policy: q\n")
    put("stepward.toml", 'policies = ["policy.yaml", "second.yaml"]\n')
    assert not is_hit(checked)
    put("stepward.toml", 'policies = ["second.yaml", "policy.yaml"]\n')
    assert not is_hit(checked), "the order of policies is the order in which they are told"
    assert is_hit(checked)


def findings(day: datetime.date) -> RunResult:
    cache = Cache.open(Path(FOLDER), version.version_digest)
    assert cache is not None
    run = Run(Configurations(), today=day, cache=cache)
    run.check_paths(["mails.yaml"])
    cache.close()
    return run.result()


@pytest.mark.parametrize("word", ["waivers", '"w\\u0061ivers"'], ids=["plain", "escaped"])
def test_a_waiver_runs_out_in_the_cache_too(word: str, checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    put("stepward.toml", 'policies = ["policy.yaml"]\n')
    put("policy.yaml", WAIVED.replace("waivers", word))
    last, after = datetime.date(2026, 6, 30), datetime.date(2026, 7, 1)
    before = findings(last)
    assert findings(after).findings != before.findings
    assert findings(last).findings == before.findings
    assert checked == ["mails.yaml"] * 2


def test_without_a_waiver_the_day_does_not_matter(checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    findings(datetime.date(2026, 6, 30))
    findings(datetime.date(2026, 7, 1))
    assert checked == ["mails.yaml"]


def test_a_changed_letter_of_our_own_code_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = version._own_folders()
    assert folders is not None
    assert {Path(folder).resolve() for folder in folders} == {ROOT / "vm", ROOT / "validator"}
    copies = [tmp_path / Path(folder).name for folder in folders]
    for folder, copy in zip(folders, copies, strict=True):
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(version, "_own_folders", lambda: [str(copy) for copy in copies])
    seen = [version.version_digest()]
    for file in (
        "vm/language/flow.py",
        "validator/rules/names.py",
        "validator/engine/reach.py",
        "validator/py.typed",
    ):
        path = tmp_path / file
        status = path.stat()
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"#" if content else b"#")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        seen.append(version.version_digest())
    assert None not in seen
    assert len(set(seen)) == len(seen)


@pytest.mark.slow
def test_checks_run_no_code_that_the_version_does_not_cover() -> None:
    put_programs(Path.cwd(), codes=None)
    script = """
import sys
from stepward.validator.cli import main
try:
    main(["check", "--output-format=json", "--sarif-output=s", "--no-cache"], standalone_mode=False)
except SystemExit:
    pass
print("stepward.validator.rules.registry" in sys.modules)
print(*sorted(name for name in sys.modules if name.startswith("stepward.sabotage.")), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
    assert done.stderr.split() == []


@pytest.mark.parametrize("library", version.LIBRARIES)
def test_a_library_of_another_version_never_hits(
    library: str, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = version._library
    found = real(library)
    assert found is not None
    assert re.fullmatch(r"[a-z0-9_]+-\d[\w.]*\.dist-info", found)
    put("good.yaml", CLEAN)
    check()
    assert is_hit(checked)
    monkeypatch.setattr(version, "_library", lambda name: "other-1" if name == library else real(name))
    assert not is_hit(checked)
    monkeypatch.setattr(version, "_library", lambda name: None if name == library else real(name))
    assert not is_hit(checked)
    assert not is_hit(checked), "nothing is kept where the version can't be told"


def test_another_python_or_another_solver_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {version.version_digest()}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version", sys.version + " (patched)")
        seen.add(version.version_digest())
    monkeypatch.setenv("Z3_LIBRARY_PATH", "/opt/another")
    seen.add(version.version_digest())
    assert len(seen) == 3


def test_the_version_is_that_of_what_would_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version.version_digest()
    (tmp_path / "first/z3").mkdir(parents=True)
    (tmp_path / "first/z3/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert version.version_digest() is None
    (tmp_path / "first/z3_solver-9.9.dist-info").mkdir()
    assert version.version_digest() not in (None, before)


def test_code_that_changes_while_it_runs_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    put("good.yaml", CLEAN)
    digests = iter(["before", "after"])
    monkeypatch.setattr(version, "version_digest", lambda: next(digests))
    assert check().exit_code == 0
    assert not Path(FOLDER).exists()


@pytest.mark.slow
def test_what_is_not_known_is_not_kept(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    shutil.copy(sorted((PROGRAMS / "bad/SW408").glob("*.yaml"))[0], "p.yaml")
    for _ in range(2):
        assert not is_hit(checked)
    assert entries() == []


@pytest.mark.parametrize(("options", "seconds"), [((), 60), (("--time-limit=5",), 5)])
def test_what_took_so_long_that_the_clock_may_have_stopped_it_is_not_kept(
    checked: list[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], seconds: int
) -> None:
    put("good.yaml", CLEAN)
    with monkeypatch.context() as slow:
        clock = iter(range(0, 10**6, seconds))
        slow.setattr("stepward.validator.gate.checking.time.monotonic", lambda: next(clock))
        assert not is_hit(checked, *options)
    assert not is_hit(checked, *options)
    assert is_hit(checked, *options)


# -- whose entries -----------------------------------------------------------------------------------------------------


def kept_bad() -> Path:
    """Keep a finding, and return its entry."""
    put("bad.yaml", BAD)
    assert check().exit_code == 1
    (entry,) = entries()
    return entry


def test_an_entry_that_somebody_else_made_is_not_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = kept_bad()
    mine = entry.read_bytes()
    monkeypatch.setattr(
        "stepward.validator.validator.validate_document", lambda document, *_, **__: Report("", document.name)
    )
    shutil.rmtree(FOLDER)
    with monkeypatch.context() as other:
        other.setenv("XDG_CACHE_HOME", str(tmp_path / "somebody"))
        assert check().exit_code == 0, "whoever lies to himself believes it"
    theirs = entry.read_bytes()
    assert theirs != mine
    monkeypatch.undo()
    monkeypatch.delenv("STEPWARD_NO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path / "project")
    assert check().exit_code == 1, "it lies in our folder under the right name, and is not ours"
    assert entry.read_bytes() == mine


def test_an_entry_that_was_damaged_is_none(checked: list[str]) -> None:
    entry = kept_bad()
    content = entry.read_bytes()
    damaged = [content[:end] for end in (0, 1, 63, 64, 65, len(content) - 1)] + [content + b" "]
    damaged += [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(0, len(content), 37)]
    for one in damaged:
        entry.write_bytes(one)
        assert not is_hit(checked)
        assert entry.read_bytes() == content
    assert is_hit(checked)


def test_an_entry_counts_under_its_own_name_only(checked: list[str]) -> None:
    entry = kept_bad()
    put("bad.yaml", CLEAN)
    check()
    (clean,) = set(entries()) - {entry}
    shutil.copy(clean, entry)
    put("bad.yaml", BAD)
    assert check().exit_code == 1


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_secret_that_is_open_to_others_is_none(mode: int, checked: list[str], tmp_path: Path) -> None:
    put("good.yaml", CLEAN)
    check()
    secret = tmp_path / "user/stepward/secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.chmod(mode)
    assert not is_hit(checked)
    secret.chmod(0o600)
    assert is_hit(checked)


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33])
def test_a_secret_of_another_length_is_none(content: bytes, checked: list[str], tmp_path: Path) -> None:
    put("good.yaml", CLEAN)
    check()
    (tmp_path / "user/stepward/secret").write_bytes(content)
    for _ in range(2):
        assert not is_hit(checked)


def test_the_secret_may_come_from_the_environment(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("good.yaml", CLEAN)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    for _ in range(2):
        assert not is_hit(checked), "there is no secret"
    monkeypatch.setenv("STEPWARD_CACHE_KEY", "a long word of the pipeline")
    assert not is_hit(checked)
    assert is_hit(checked)
    monkeypatch.setenv("STEPWARD_CACHE_KEY", "another word")
    assert not is_hit(checked)
    monkeypatch.setenv("STEPWARD_CACHE_KEY", "")
    assert not is_hit(checked)


@pytest.mark.parametrize("home", ["~", "relative"])
def test_a_user_without_a_home_has_no_secret(home: str, checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    put("good.yaml", CLEAN)
    for _ in range(2):
        assert not is_hit(checked)
    assert [path.name for path in Path.cwd().iterdir()] == ["good.yaml"]


def test_entries_are_for_their_user_alone_and_for_no_repository(checked: list[str]) -> None:
    entry = kept_bad()
    assert Path(FOLDER).stat().st_mode & 0o777 == 0o700
    assert entry.stat().st_mode & 0o777 == 0o600
    subprocess.run(["git", "init", "-q"], check=True)
    done = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert done.stdout == "?? bad.yaml\n"
    tag = Path(FOLDER, "CACHEDIR.TAG").read_text().splitlines()[0]
    assert tag == "Signature: 8a477f597d28d172789f06886806bc55"


def test_the_folder_itself_is_not_searched() -> None:
    kept_bad()
    put("stepward.toml", "exclude = []\n")  # hidden folders are searched then
    for _ in range(2):
        assert check().stdout.endswith("1 error in 1 of 1 program\n")


# -- the folder --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["file", "link", "closed"])
def test_a_folder_that_is_none_is_done_without(how: str, checked: list[str], tmp_path: Path) -> None:
    put("good.yaml", CLEAN)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if how == "file":
        Path(FOLDER).touch()
    elif how == "link":
        Path(FOLDER).symlink_to(elsewhere)
    else:
        Path(FOLDER).symlink_to("/proc/self/nothing")
    for _ in range(2):
        assert not is_hit(checked)
        assert check().stderr == ""
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("way", ["--no-cache", "STEPWARD_NO_CACHE"])
def test_without_the_cache_nothing_is_read_and_nothing_kept(
    way: str, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("good.yaml", CLEAN)
    options = [way] if way.startswith("-") else []
    if not options:
        monkeypatch.setenv(way, "1")
    assert not is_hit(checked, *options)
    assert not Path(FOLDER).exists()
    monkeypatch.delenv("STEPWARD_NO_CACHE", raising=False)
    check()
    if not options:
        monkeypatch.setenv(way, "1")
    assert not is_hit(checked, *options)


def test_what_was_not_needed_for_the_longest_time_goes_first(
    checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        put(f"p{number}.yaml", CLEAN.replace("good", f"p{number}"))
    check()
    now = time.time()
    names = {}
    for number in range(6):
        before = set(entries())
        check(f"p{number}.yaml")
        (names[number],) = set(entries()) - before
        os.utime(names[number], (now - 10**6 + number,) * 2)
    check("p0.yaml")  # it is in use: that makes it new
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 10)
    put("p6.yaml", CLEAN)
    check("p6.yaml")
    left = set(entries())
    assert len(left) == 10
    assert [number for number in names if names[number] not in left] == [1, 2, 3]
    size = sum(path.stat().st_size for path in left)
    monkeypatch.setattr(cache_module, "MAX_BYTES", size // 2)
    put("p7.yaml", CLEAN)
    check("p7.yaml")
    assert sum(path.stat().st_size for path in entries()) <= size // 2
    assert is_hit(checked, "p7.yaml")


def test_what_a_run_left_half_written_goes_in_time() -> None:
    kept_bad()
    old, new = Path(FOLDER, f"{'a' * 64}.x"), Path(FOLDER, f"{'b' * 64}.x")
    foreign = Path(FOLDER, "notes.txt")
    for path in (old, new, foreign):
        path.touch()
    for path in (old, foreign):
        os.utime(path, (0, 0))
    put("good.yaml", CLEAN)
    check()
    assert [path.exists() for path in (old, new, foreign)] == [False, True, True]


def test_a_large_result_is_not_kept(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("bad.yaml", BAD)
    monkeypatch.setattr(cache_module, "MAX_ENTRY_BYTES", 300)
    for _ in range(2):
        assert not is_hit(checked)


@pytest.mark.slow
def test_many_runs_share_a_folder() -> None:
    for number in range(20):
        put(f"p{number}.yaml", BAD.replace("gone", f"gone{number}"))
    command = [STEPWARD, "check", "--output-format=concise"]
    for _ in range(2):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        told = {run.communicate(timeout=120) for run in runs}
        assert len(told) == 1
        assert {run.returncode for run in runs} == {1}
    ((out, err),) = told
    assert (out.count("SW101"), err) == (20, "")
    assert {path.name for path in Path(FOLDER).iterdir()} == {
        ".gitignore",
        "CACHEDIR.TAG",
        *(path.name for path in entries()),
    }


def test_an_interrupted_run_keeps_what_it_has(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.yaml", CLEAN)
    put("b.yaml", CLEAN)
    real = Run._check_file

    def broken_off(self: Run, candidate: object, shown: str) -> None:
        if shown == "b.yaml":
            raise KeyboardInterrupt
        real(self, candidate, shown)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_check_file", broken_off)
        assert check().exit_code == 130
    checked.clear()
    check()
    assert checked == ["b.yaml"]


# -- what a hit costs --------------------------------------------------------------------------------------------------

HEAVY = {"networkx", "z3", "pydantic", "yaml", "hypothesis", "graphviz", "rich", "cryptography"}


@pytest.fixture
def _clean_folder() -> None:
    for number in range(3):
        text = (PROGRAMS / "good/customer_refund.yaml").read_text().replace("name: customer_refund", f"name: c{number}")
        put(f"programs/c{number}.yaml", text)
    put("programs/pipeline.yaml", "jobs: {a: {steps: []}}\n")
    put("policies/money.yaml", "policy: money\nguardrails: [{name: once, at_most_once: {tool: issue_refund}}]\n")
    put("stepward.toml", 'policies = ["policies/money.yaml"]\n')


def modules_of(*arguments: str) -> set[str]:
    script = f"""
import json, sys
from stepward.validator.cli import main
try:
    main(["check", *{arguments!r}], standalone_mode=False)
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [(), ("--output-format=concise",), ("--output-format=json",)])
@pytest.mark.usefixtures("_clean_folder")
def test_a_clean_folder_from_the_cache_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    cold = modules_of(*arguments)
    assert "pydantic" in cold
    warm = modules_of(*arguments)
    assert not HEAVY & warm
    assert not {name for name in warm if name.startswith(("stepward.validator.rules", "stepward.vm.language"))}


@pytest.mark.parametrize("name", ["sarif", "junit", "github", "gitlab"])
@pytest.mark.usefixtures("_clean_folder")
def test_other_formats_import_no_graphs_and_no_solver(name: str) -> None:
    modules_of(f"--output-format={name}")
    assert not {"networkx", "z3", "hypothesis", "graphviz"} & modules_of(f"--output-format={name}")


def test_a_key_tells_lists_of_parts_apart() -> None:
    cache = Cache.open(Path(FOLDER), lambda: "version")
    assert cache is not None
    lists = [[], [b""], [b"", b""], [b"ab"], [b"a", b"b"], [b"", b"ab"], [b"1:a"], [b"a", b"1:"]]
    keys = [cache.key(parts) for parts in lists]
    assert len(set(keys)) == len(keys)
    other = Cache.open(Path(FOLDER), lambda: "other version")
    assert other is not None
    assert not set(keys) & {other.key(parts) for parts in lists}
