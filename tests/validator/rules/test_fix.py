"""`--fix` and `--diff`: every fix parses, changes nothing else, takes its finding away; what is not sure is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import Result

from commands import check as check_here
from layers import impatient
from paths import BAD, GOOD
from sizes import MANY, size
from stepward.validator.edits import apply_edits
from stepward.validator.findings import Edit, Finding
from stepward.validator.gate import fixing
from stepward.validator.gate.checking import Run
from stepward.validator.gate.settings import Configurations, Overrides
from stepward.validator.result import RunResult
from stepward.vm import Program
from stepward.vm.reading.source import Span

FIXED = {"SW002", "SW101", "SW102", "SW106", "SW109"}
FIXED |= {"SW201", "SW203", "SW204", "SW205", "SW206", "SW207", "SW211", "SW301"}
"""The codes of which a bad program has a finding that is fixed."""


def programs(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.suffix in {".yaml", ".json", ".py"})
    return sorted(path for path in found if not path.name.endswith(".policy.yaml"))


def findings_in(text: str, path: Path) -> tuple[Finding, ...]:
    """Return the findings on a text, as if it stood in a file, under the policy beside that."""
    policy = path.with_suffix(".policy.yaml")
    overrides = Overrides(ignore=("SW212",), policies=(policy,) if policy.exists() else ())
    run = Run(Configurations(overrides, is_isolated=True), with_fixes=True)
    run.check_text(text.encode(), str(path))
    return run.result().findings


def check(*arguments: str) -> Result:
    return check_here("--isolated", "--ignore=SW212", *arguments)


def spliced(text: str, edits: tuple[Edit, ...]) -> str:
    """Make edits as SARIF tells it, line by line, sharing no code with the checker."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
        line, column, end_line, end_column = edit.span
        head, tail = lines[line - 1][: column - 1], lines[end_line - 1][end_column - 1 :]
        lines[line - 1 : end_line] = (head + edit.text + tail).split("\n")
    return "\n".join(lines)


# -- the bad programs --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_fix_on_the_bad_programs_takes_its_finding_away_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    seen = set()
    # By day those of the codes that have a fix; others may have a finding of such a code besides.
    for path in programs(BAD) if MANY else [path for code in sorted(FIXED) for path in programs(BAD / code)]:
        text = path.read_bytes().decode("utf-8-sig", "replace")
        findings = findings_in(text, path)
        for finding in findings:
            if finding.fix is None:
                continue
            seen.add(finding.code)
            fixed = spliced(text, finding.fix.edits)
            assert fixed == apply_edits(text, finding.fix.edits)
            after = findings_in(fixed, path)
            told = f"{path.name}: {finding.code} {finding.fix.title}"
            assert "SW001" not in {one.code for one in after}, told
            count = [one.fingerprint() for one in findings].count(finding.fingerprint())
            assert [one.fingerprint() for one in after].count(finding.fingerprint()) == count - 1, told
            assert re.findall("#.*", fixed) == re.findall("#.*", text), "comments are kept"
            assert len(fixed.split("\n")) - len(text.split("\n")) <= 1, "no more than a new field on a line of its own"
    assert seen == FIXED


@pytest.mark.slow
def test_what_is_shown_is_what_is_done_and_then_nothing_is_left_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in FIXED:
        shutil.copytree(BAD / code, tmp_path / "one" / code)
        shutil.copytree(BAD / code, tmp_path / "two" / code)
    monkeypatch.chdir(tmp_path / "one")
    shown = check("--diff")
    assert shown.exit_code == 1
    assert all(path.read_bytes() == (BAD / path).read_bytes() for path in programs(Path()))
    number = int(re.fullmatch(r"would fix (\d+) findings in \d+ files\n", shown.stderr)[1])  # type: ignore[index]
    assert number >= len(FIXED)
    told = check("--fix", "--output-format=concise")
    assert told.stderr == shown.stderr.replace("would fix", "fixed")
    subprocess.run(["git", "apply", "-"], input=shown.stdout_bytes, cwd=tmp_path / "two", check=True)
    for path in programs(tmp_path / "one"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path
    assert check("--fix", "--output-format=concise").stderr == "nothing fixed\n"
    assert check("--diff").exit_code == 0


@pytest.mark.slow
def test_a_letter_that_is_lost_comes_back() -> None:
    """In good programs, whatever a step goes to or calls loses a letter: the fix is the program, or there is none."""
    restored = 0
    for path in programs(GOOD)[: size(4, 16)]:
        text = path.read_text()
        target = re.compile(r'"?(?:next_step|error_step|then|otherwise|tool)"?: "?(\w{5,})')
        for name in list(target.finditer(text, text.index("steps")))[:4]:
            cut = name.start(1) + 2
            findings = findings_in(text[:cut] + text[cut + 1 :], path)
            fixes = [finding.fix for finding in findings if finding.fix is not None]
            for fix in fixes:
                assert spliced(text[:cut] + text[cut + 1 :], fix.edits) == text, (path.name, name[0])
                restored += 1
    assert restored >= size(10, 20)


# -- one text at a time ------------------------------------------------------------------------------------------------

HEAD = "name: x\ninputs: {amount: {type: number}, word: {type: string, enum: [open, shut]}}\n"
ENDS = "  - {id: yes_step, type: end}\n  - {id: no_step, type: end, outcome: failure}\n"


def flow(condition: str) -> str:
    return f"{HEAD}steps:\n  - {{id: c, type: condition, {condition}, then: yes_step, otherwise: no_step}}\n{ENDS}"


ARM = """\
name: x
inputs: {}
max_steps: 9
tools: {look: {effect: read, returns: {type: string, enum: [open, shut]}}}
steps:
"""
ASK = "  - {id: ask, type: condition, condition: $look.output == 'open', then: done, otherwise: look}\n"
DONE = "  - {id: done, type: end}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (flow("condition: $amuont > 5"), ("$amuont", "$amount")),
        (flow("condition: '$word == \"opeen\"'"), ("opeen", "open")),
        (flow("condition: '$word == ''opeen'''"), ("opeen", "open")),
        (flow("condition: \"$word == 'opeen'\""), ("opeen", "open")),
        (flow("condition: \"'$word' == 'open'\""), ("\"'$word' ", '"$word ')),
        (flow("condition: \"$word.startswith('o')\""), (".startswith('o')", " starts_with 'o'")),
        (flow('condition: "$word.startswith(\\"o\\")"'), ('.startswith(\\"o\\")', ' starts_with \\"o\\"')),
        (flow("condition: $amount > 5 && $amount < 9 || !($word == 'open')"), None),
        (
            flow("condition: $amount > 5  # not here\n    ,")
            .replace(", then", "then")
            .replace("yes_step", "yes_stp", 1),
            None,
        ),
        (flow("condition: &c $amuont > 5"), ("amuont", "amount")),
        (flow("condition: '$word == “open”'"), ("“open”", "''open''")),
        (flow("condition: !!str $amuont > 5"), ("amuont", "amount")),
        (flow("condition: $amuont > 5").replace("\n", "\r\n"), ("amuont", "amount")),
        (
            f"{HEAD}steps:\n  - id: c\n    type: condition\n    # why\n    condition: >\n      $amount > 5 &&\n"
            f"      $amount < 9  \n    then: yes_step\n    otherwise: no_step\n{ENDS}",
            ("&&", "and"),
        ),
        (
            f"{HEAD}steps:\n  - id: c\n    type: condition\n    conditon: $amount > 5  # typo\n    then: yes_step\n"
            f"    otherwise: no_step\n{ENDS}",
            ("conditon", "condition"),
        ),
        (flow("'conditon': $amount > 5"), ("conditon", "condition")),
        (flow("condition: $amount > 5").replace("type: condition", "type: conditon"), ("conditon", "condition")),
        (f"{ARM}  - {{id: look, type: tool, tool: look}}\n{ASK}{DONE}", ("tool: look}", "tool: look, next_step: ask}")),
        (
            f"{ARM}  - {{id: look, type: tool, tool: look,}}  # looks\n{ASK}{DONE}",
            ("tool: look,}", "tool: look, next_step: ask,}"),
        ),
        (
            f"{ARM}  - id: look  # looks\n    type: tool\n    tool: look  # the tool\n\n{ASK}{DONE}",
            ("# the tool\n", "# the tool\n    next_step: ask\n"),
        ),
        (
            f"{ARM}  - type: llm\n    id: look\n    prompt: >\n      Look,\n      and look.\n{ASK}{DONE}",
            ("    id: look\n", "    id: look\n    next_step: ask\n"),
        ),
        (
            f"{ARM}  - id: look\n    type: tool\n    tool: look\n{ASK}{DONE}".replace("\n", "\r\n"),
            ("    tool: look\r\n", "    tool: look\r\n    next_step: ask\r\n"),
        ),
    ],
)
def test_a_fix_of_yaml_keeps_quotes_comments_and_layout(old: str, new: tuple[str, str] | None) -> None:
    findings = [finding for finding in findings_in(old, Path("x.yaml")) if finding.fix is not None]
    assert findings
    for finding in findings[:1]:
        assert finding.fix is not None
        fixed = spliced(old, finding.fix.edits)
        if new is not None:
            assert old.count(new[0]) >= 1
            assert fixed == old.replace(*new, 1), finding.fix.title
        left = findings_in(fixed, Path("x.yaml"))
        assert finding.fingerprint() not in {one.fingerprint() for one in left}


def as_data(steps: str) -> str:
    return '{"name": "x", "max_steps": 9, "inputs": {}, "steps": [\n' + steps + "\n]}"


JSON_LOOK = '{\n  "id": "look",\n  "type": "tool",\n  "tool": "look"\n}'
JSON_REST = (
    ',\n{"id": "ask", "type": "condition", "condition": "$look.output == 1", "then": "done", "otherwise": "look"},\n'
)


@pytest.mark.parametrize("suffix", ["json", "py"])
def test_a_fix_of_json_and_python_keeps_the_layout(suffix: str) -> None:
    text = as_data(JSON_LOOK + JSON_REST + '{"id": "done", "type": "end"}')
    text = f"import x\n\nprogram = {text}  # ours\n" if suffix == "py" else text
    (fix, *_) = [one.fix for one in findings_in(text, Path(f"x.{suffix}")) if one.code == "SW106"]
    assert fix is not None
    assert spliced(text, fix.edits) == text.replace('"tool": "look"\n', '"tool": "look",\n  "next_step": "ask"\n')
    text = text.replace('"then": "done"', '"then": "dones"')
    (fix, *_) = [one.fix for one in findings_in(text, Path(f"x.{suffix}")) if one.code == "SW101"]
    assert fix is not None
    assert spliced(text, fix.edits) == text.replace("dones", "done")


def test_python_keeps_its_own_quotes_and_its_other_programs() -> None:
    steps = "[{'id': 'a', 'type': 'llm', 'prompt': 'p', 'next_step': 'las'}, {'id': 'last', 'type': 'end'}]"
    text = f"Program.from_dict({{'name': 'one', 'inputs': {{}}, 'steps': {steps}}})\n" * 2
    findings = findings_in(text, Path("x.py"))
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    assert [spliced(text, fix.edits) == text.replace("'las'", "'last'", 1) for fix in fixes] == [True, False]
    assert spliced(text, fixes[0].edits + fixes[1].edits) == text.replace("'las'", "'last'")


@pytest.mark.parametrize(
    "text",
    [
        flow("condition: $word.title() == 'Open'"),
        flow("condition: word == open"),
        flow("condition: $word == undefined"),
        flow("condition: $amount > 5").replace("then: yes_step", "then: other_step"),
        flow("condition: $amount > 5").replace("then: yes_step", "then: step_1")
        + "  - {id: step_11, type: end}\n  - {id: step_12, type: end}\n",
    ],
    ids=["method left out", "bare words", "undefined", "another word", "two candidates"],
)
def test_what_is_not_sure_has_no_fix(text: str) -> None:
    findings = findings_in(text, Path("x.yaml"))
    assert findings
    assert [finding.fix.title for finding in findings if finding.fix is not None] == []


def test_a_method_becomes_a_function_and_the_program_says_language_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = flow("condition: $word.strip().lower() == 'open'")
    Path("x.yaml").write_text(text)
    check("--fix", "x.yaml")
    fixed = Program.load("x.yaml").to_dict()
    assert fixed["language"] == 2
    (condition,) = [step["condition"] for step in fixed["steps"] if step["type"] == "condition"]
    assert condition == "lower(trim($word)) == 'open'"


def test_a_value_that_stands_for_two_is_fixed_where_it_stands_for_one() -> None:
    again = "  - {id: d, type: condition, condition: *a, then: yes_step, otherwise: no_step}\n"
    text = flow("condition: &a $amuont > 5").replace("then: yes_step", "then: d").replace(ENDS, again + ENDS)
    findings = findings_in(text, Path("x.yaml"))
    assert [(finding.step, finding.fix is not None) for finding in findings] == [("c", False), ("d", True)]
    fix = findings[1].fix
    assert fix is not None
    assert spliced(text, fix.edits) == text.replace("*a", "$amount > 5")


def test_the_json_and_the_sarif_say_the_same_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = flow("condition: $amuont > 5")
    Path("x.yaml").write_text(text)
    check("--json-output=r.json", "--sarif-output=r.sarif", "x.yaml")
    (finding,) = json.loads(Path("r.json").read_text())["findings"]
    (result,) = json.loads(Path("r.sarif").read_text())["runs"][0]["results"]
    ((change,),) = [fix["artifactChanges"] for fix in result["fixes"]]
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    (edit,) = finding["fix"]["edits"]
    assert edit == {
        "line": region["startLine"],
        "column": region["startColumn"],
        "end_line": region["endLine"],
        "end_column": region["endColumn"],
        "text": replacement["insertedContent"]["text"],
    }
    assert (
        result["fixes"][0]["description"]["text"] == finding["fix"]["title"] == "write `$amount` in place of `$amuont`"
    )
    assert change["artifactLocation"] == {"uri": "x.yaml", "uriBaseId": "%SRCROOT%"}


# -- the command -------------------------------------------------------------------------------------------------------

TYPO = flow("condition: $amuont > 5")
MENDED = TYPO.replace("amuont", "amount")


@pytest.mark.usefixtures("in_own_folder")
class TestCommand:
    def test_it_mends_then_tells_what_is_left(self) -> None:
        Path("x.yaml").write_text(TYPO.replace("then: yes_step", "then: yes_step2"))
        told = check("--fix")
        assert (told.exit_code, told.stdout, told.stderr) == (
            0,
            "1 program: no findings\n",
            "fixed 2 findings in 1 file\n",
        )
        assert Path("x.yaml").read_text() == MENDED

    def test_a_fix_that_brings_another_to_light_is_followed_by_it(self) -> None:
        Path("x.yaml").write_text(TYPO.replace("type: condition", "type: conditon"))
        assert check("--fix").stderr == "fixed 2 findings in 1 file\n"
        assert Path("x.yaml").read_text() == MENDED

    def test_a_diff_writes_nothing_and_exits_with_1_when_there_is_one(self) -> None:
        Path("x.yaml").write_text(TYPO)
        told = check("--diff")
        assert (told.exit_code, told.stderr) == (1, "would fix 1 finding in 1 file\n")
        assert "-  - {id: c, type: condition, condition: $amuont > 5," in told.stdout
        assert Path("x.yaml").read_text() == TYPO
        Path("x.yaml").write_text(MENDED.replace("$amount > 5", "$amount > true"))
        told = check("--diff")
        assert (told.exit_code, told.stdout, told.stderr) == (0, "", "nothing to fix\n")
        Path("x.yaml").unlink()
        assert check("--diff").exit_code == 3

    def test_the_last_line_may_have_no_end(self) -> None:
        Path("x.yaml").write_text(MENDED.rstrip("\n").replace("failure", "failur"))
        shown = check("--diff", "x.yaml").stdout
        assert shown.count("\\ No newline at end of file\n") == 2
        subprocess.run(["git", "apply", "-"], input=shown.encode(), check=True)
        assert Path("x.yaml").read_text() == MENDED.rstrip("\n")

    def test_marks_line_ends_permissions_and_links_stay(self) -> None:
        content = b"\xef\xbb\xbf" + TYPO.replace("\n", "\r\n").encode()
        Path("real.yaml").write_bytes(content)
        Path("real.yaml").chmod(0o640)
        Path("x.yaml").symlink_to("real.yaml")
        assert check("--fix", "x.yaml").exit_code == 0
        assert Path("x.yaml").is_symlink()
        assert Path("real.yaml").read_bytes() == content.replace(b"amuont", b"amount")
        assert stat.S_IMODE(Path("real.yaml").stat().st_mode) == 0o640
        assert sorted(os.listdir(".")) == ["real.yaml", "x.yaml"]

    def test_what_is_silenced_hidden_or_deselected_stays(self) -> None:
        silenced = TYPO.replace("no_step}\n", "no_step}  # stepward: ignore[SW201] it comes later\n", 1)
        Path("x.yaml").write_text(silenced)
        assert check("--fix").stderr == "nothing fixed\n"
        Path("x.yaml").write_text(TYPO)
        assert check("--fix", "--ignore=SW201").stderr == "nothing fixed\n"
        check("--write-baseline=base.json", "x.yaml")
        assert check("--fix", "--baseline=base.json", "x.yaml").stderr == "nothing fixed\n"
        assert Path("x.yaml").read_text() == TYPO

    def test_a_new_baseline_lists_what_no_fix_takes_away(self) -> None:
        Path("x.yaml").write_text(TYPO)
        told = check("--fix", "--write-baseline=base.json", "x.yaml")
        assert (told.exit_code, json.loads(Path("base.json").read_text())["findings"]) == (0, [])

    def test_a_file_that_changed_meanwhile_is_left_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("x.yaml").write_text(TYPO)
        write = fixing.write_fixed

        def late(fixed: fixing.FixedFile) -> str | None:
            Path("x.yaml").write_text(TYPO + "# mine\n")
            return write(fixed)

        monkeypatch.setattr(fixing, "write_fixed", late)
        told = check("--fix")
        assert told.stderr == "warning: `x.yaml` is not fixed: it has changed meanwhile\nnothing fixed\n"
        assert (told.exit_code, Path("x.yaml").read_text()) == (1, TYPO + "# mine\n")

    def test_a_file_that_may_not_be_written_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("x.yaml").write_text(TYPO)
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
        assert "`x.yaml` is not fixed: permission denied" in check("--fix").stderr
        monkeypatch.undo()

    def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        path = Path.cwd() / "x.yaml"
        path.write_text(TYPO)
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        told = fixing.write_fixed(fixing.FixedFile("x.yaml", TYPO, MENDED, 1))
        assert (told, path.read_text(), os.listdir(".")) == ("no space left on device", TYPO, ["x.yaml"])

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--fix", "--diff"], "give one of the two"),
            (["--fix", "-"], "do not work on standard input"),
            (["--diff", "--sarif-output=r"], "instead of the report"),
            (["--diff", "--output-file=r"], "instead of the report"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, arguments: list[str], says: str) -> None:
        told = check(*arguments)
        assert (told.exit_code, says in told.stderr) == (2, True)


# -- the loop ----------------------------------------------------------------------------------------------------------


def found(text: str, *edits: tuple[int, int, str], message: str = "m") -> Finding:
    """Return a finding whose fix edits stretches of the first line."""
    from stepward.validator.findings import Fix, Severity
    from stepward.vm.reading.source import Place

    fix = Fix("fix", tuple(Edit(Span(1, start + 1, 1, end + 1), new) for start, end, new in edits))
    return Finding("SW101", "missing-target", Severity.ERROR, message, "", Place(), file="x.yaml", fix=fix)


def fixed_by(text: str, first: list[Finding], later: dict[str, list[Finding]]) -> tuple[str, list[str]]:
    """Return what becomes of a text whose findings are `first`, then those of the text that comes up."""
    asked = []

    def recheck(file: str, edited: str) -> list[Finding]:
        asked.append(edited)
        return later.get(edited, [])

    result = RunResult(findings=tuple(first), sources={"x.yaml": text})
    files = fixing.fixed_files(result, recheck)
    return (files[0].after if files else text), asked


def test_a_fix_that_does_not_take_its_finding_away_is_undone() -> None:
    bad = found("ab", (0, 1, "x"), message="stays")
    good = found("ab", (2, 3, "y"), message="goes")
    after, asked = fixed_by("abc", [bad, good], {"xby": [bad], "aby": [bad]})
    assert (after, asked) == ("aby", ["xby", "aby"])


def test_edits_that_touch_take_turns() -> None:
    one, two = found("abc", (0, 2, "x"), message="one"), found("abc", (1, 3, "y"), message="two")
    after, asked = fixed_by("abc", [one, two], {"xc": [found("xc", (1, 2, "z"), message="two")]})
    assert (after, asked) == ("xz", ["xc", "xz"])


def test_findings_that_share_an_edit_are_fixed_at_once() -> None:
    one, two = found("abc", (0, 1, "x"), message="one"), found("abc", (0, 1, "x"), message="two")
    assert fixed_by("abc", [one, two], {}) == ("xbc", ["xbc"])


def test_fixes_that_never_end_are_given_up() -> None:
    text = "a"
    grows = {"a" + "b" * n: [found("", (0, 0, ""), message=str(n))] for n in range(99)}
    later = {key: [found(key, (len(key), len(key), "b"), message=finding.message)] for key, (finding,) in grows.items()}
    after, asked = fixed_by(text, later["a"], later)
    assert len(asked) == fixing.MAX_ROUNDS
    assert after == "a" + "b" * fixing.MAX_ROUNDS
