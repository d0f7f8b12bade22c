"""Fast: which files of a folder are programs, found by what is in them, and what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepward.validator.gate import discovery
from stepward.validator.gate.discovery import (
    Candidate,
    Contents,
    TargetError,
    find_candidates,
    has_steps_on_top,
    read_candidate,
    read_content,
)
from stepward.validator.gate.settings import Configurations
from stepward.vm.reading.limits import MAX_BYTES

PROGRAM = "name: p\nsteps:\n  - {id: a, type: end}\n"


def put(root: Path, name: str, text: str = PROGRAM) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def found(root: Path, *targets: str) -> list[str]:
    candidates = find_candidates([root / target for target in targets] or [root], Configurations())
    return [candidate.path.relative_to(root).as_posix() for candidate in candidates if not candidate.is_excluded]


def excluded(root: Path, *targets: str) -> list[str]:
    candidates = find_candidates([root / target for target in targets], Configurations())
    return [candidate.path.relative_to(root).as_posix() for candidate in candidates if candidate.is_excluded]


def contents(path: Path, *, is_named: bool = False, skip: bool = False) -> Contents:
    return read_candidate(Candidate(path, is_named), skip_non_programs=skip)


def is_skipped(what: Contents) -> bool:
    return what.error is None and not what.documents


def problem(what: Contents) -> tuple[str, str, str]:
    assert what.error is not None
    (first, *_) = what.error.problems
    return first.code, first.message, first.help


# -- walking -----------------------------------------------------------------------------------------------------------


def test_candidates_come_by_suffix_in_a_fixed_order_each_once(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", "d.py", "e.txt", "sub/z.yaml", "sub/deep/y.yaml", "aa/x.yaml"):
        put(tmp_path, name)
    expected = ["a.yaml", "b.yml", "c.json", "d.py", "aa/x.yaml", "sub/z.yaml", "sub/deep/y.yaml"]
    assert found(tmp_path) == expected
    assert found(tmp_path, ".", "a.yaml", "sub") == expected
    assert found(tmp_path, "sub/deep", "a.yaml") == ["sub/deep/y.yaml", "a.yaml"]


def test_folders_that_are_nobodys_own_are_left_out(tmp_path: Path) -> None:
    for folder in (".hidden", ".git", "node_modules/x", "__pycache__", "envs/mine"):
        put(tmp_path, f"{folder}/p.yaml")
    put(tmp_path, "envs/mine/pyvenv.cfg", "")
    put(tmp_path, "kept/p.yaml")
    assert found(tmp_path) == ["kept/p.yaml"]
    assert found(tmp_path, ".hidden") == [".hidden/p.yaml"]


def test_links_that_run_in_circles_are_walked_once(tmp_path: Path) -> None:
    put(tmp_path, "a/p.yaml")
    (tmp_path / "a/again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "b").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path) == ["a/p.yaml"]


def test_gitignore_files_count_from_the_root_of_the_work_tree_down(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    put(tmp_path, ".gitignore", "build/\n*.draft.yaml\n!important.draft.yaml\n\n# a comment\n/top.yaml\n")
    put(tmp_path, "sub/.gitignore", "local.yaml\n!again.draft.yaml\n")
    for name in ("build/p.yaml", "x.draft.yaml", "important.draft.yaml", "top.yaml", "sub/top.yaml", "sub/local.yaml"):
        put(tmp_path, name)
    put(tmp_path, "sub/again.draft.yaml")
    expected = ["important.draft.yaml", "sub/again.draft.yaml", "sub/top.yaml"]
    assert found(tmp_path) == expected
    assert found(tmp_path, "sub") == expected[1:]


def test_above_the_work_tree_no_gitignore_counts(tmp_path: Path) -> None:
    put(tmp_path, ".gitignore", "*.yaml\n")
    put(tmp_path, "repo/p.yaml")
    assert found(tmp_path, "repo") == ["repo/p.yaml"]
    (tmp_path / ".git").mkdir()
    assert found(tmp_path, "repo") == []


def test_what_is_named_is_checked_even_when_it_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    put(tmp_path, ".gitignore", "build/\nlonely.yaml\n")
    put(tmp_path, "build/p.yaml")
    put(tmp_path, "lonely.yaml")
    assert found(tmp_path) == []
    assert found(tmp_path, "build", "lonely.yaml") == ["build/p.yaml", "lonely.yaml"]


def test_a_gitignore_with_a_line_that_is_no_pattern_still_counts(tmp_path: Path) -> None:
    put(tmp_path, ".gitignore", "!\n/\nout.yaml\n")
    put(tmp_path, "out.yaml")
    put(tmp_path, "in.yaml")
    assert found(tmp_path) == ["in.yaml"]


def test_excludes_leave_out_files_and_folders(tmp_path: Path) -> None:
    put(tmp_path, "stepward.toml", 'extend-exclude = ["old/", "sub/x.yaml", "*.gen.yaml"]')
    for name in ("old/p.yaml", "sub/x.yaml", "sub/y.yaml", "a.gen.yaml", "x.yaml", ".hidden/p.yaml"):
        put(tmp_path, name)
    assert found(tmp_path) == ["x.yaml", "sub/y.yaml"]


def test_excludes_hold_for_what_is_named(tmp_path: Path) -> None:
    put(tmp_path, "stepward.toml", 'extend-exclude = ["old/", "sub/x.yaml"]')
    for name in ("old/p.yaml", "old/deep/p.yaml", "sub/x.yaml", "sub/y.yaml", ".hidden/p.yaml"):
        put(tmp_path, name)
    named = ("old/p.yaml", "old/deep", "old", "sub/x.yaml", "sub/y.yaml", ".hidden", ".hidden/p.yaml")
    assert found(tmp_path, *named) == ["sub/y.yaml", ".hidden/p.yaml"]
    assert excluded(tmp_path, *named) == ["old/p.yaml", "old/deep", "old", "sub/x.yaml"]
    put(tmp_path, "old/stepward.toml", "")  # its own configuration, which excludes nothing
    assert found(tmp_path, "old") == ["old/p.yaml", "old/deep/p.yaml"]


def test_exclude_instead_of_the_default_lets_hidden_folders_in(tmp_path: Path) -> None:
    put(tmp_path, "stepward.toml", 'exclude = ["old/"]')
    for name in ("old/p.yaml", ".flows/p.yaml", ".git/p.yaml"):
        put(tmp_path, name)
    assert found(tmp_path) == [".flows/p.yaml"]


def test_a_nested_configuration_excludes_in_its_own_folder(tmp_path: Path) -> None:
    put(tmp_path, "stepward.toml", 'extend-exclude = ["x.yaml"]')
    put(tmp_path, "sub/stepward.toml", 'extend-exclude = ["y.yaml"]')
    for name in ("x.yaml", "y.yaml", "sub/x.yaml", "sub/y.yaml"):
        put(tmp_path, name)
    assert found(tmp_path) == ["y.yaml", "sub/x.yaml"]


@pytest.mark.parametrize("target", ["nowhere.yaml", "nowhere/", "p.yaml/inside"])
def test_a_target_that_is_not_there_is_an_error(tmp_path: Path, target: str) -> None:
    put(tmp_path, "p.yaml")
    with pytest.raises(TargetError, match="can't be checked"):
        found(tmp_path, target)


def test_an_empty_target_is_not_the_current_folder() -> None:
    with pytest.raises(TargetError, match="empty text"):
        list(find_candidates([""], Configurations()))


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def guarded(path: str | Path) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(TargetError, match="can't be read: permission denied"):
        found(tmp_path)


# -- looking inside ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yaml", "services: {web: {image: x}}\n"),
        ("nested.yaml", "jobs:\n  build:\n    steps: [{run: make}]\n"),
        ("list.yaml", "- {id: a, type: end}\n- steps\n"),
        ("text.yaml", "the steps: of: a: recipe\n"),
        ("policy.yaml", "policy: steps\nallow: [a]\n"),
        ("empty.yaml", ""),
        ("broken.yaml", "jobs:\n  steps: [\n"),
        ("broken.json", '{"jobs": {"steps": [}'),
        ("value.json", '{"a": "steps", "b": ["steps:"], '),
        ("other.py", "steps = [{'id': 1}]\n"),
        ("broken.py", "steps = (\n"),
    ],
)
def test_a_file_in_a_folder_that_is_no_program_is_skipped(tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path, name, text)
    assert is_skipped(contents(path))
    assert is_skipped(contents(path, is_named=True, skip=True))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", PROGRAM),
        ("wrong.yaml", "steps: 3\nwhatever: [1]\n"),
        ("null.yaml", "steps:\n"),
        ("twice.yaml", "name: a\nname: b\nsteps: []\n"),
        ("broken.yaml", "name: [\nsteps:\n  - a\n"),
        ("quoted.yaml", "name: [\n'steps':\n  - a\n"),
        ("indented.yaml", "# program\n---\n  name: [\n  steps:\n    - a\n"),
        ("flow.yaml", "{name: x, steps: [}\n"),
        ("windows.yaml", "name: [\r\nsteps:\r\n  - a\r\n"),
        ("a.json", '{"steps": 3}'),
        ("escaped.json", '{"st\\u0065ps": 3}'),
        ("escaped.yaml", 'name: x\n"st\\x65ps": 3\n'),
        ("escaped-long.yml", '"\\U00000073teps": 3\n'),
        ("over-two-lines.yaml", '? "st\\\n  eps"\n: 3\n'),
        ("broken.json", '{"a": {"b": [1]}, "steps": [}'),
        ("a.py", "p = Program.from_dict({'a': 1})  # no steps\n"),
        ("broken.py", "p = Program.from_dict({'steps': [}\n"),
    ],
)
def test_a_program_is_never_skipped_whatever_else_is_wrong(tmp_path: Path, name: str, text: str) -> None:
    assert not is_skipped(contents(put(tmp_path, name, text)))


def test_a_file_that_is_not_utf8_is_a_program_by_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: caf\xe9\nsteps:\n  - {id: a, type: end}\n")
    assert problem(contents(path))[0] == "SW001"
    path.write_bytes(b"name: caf\xe9\njobs:\n  steps: 1\n")
    assert is_skipped(contents(path))


def test_of_several_documents_those_with_steps_are_programs(tmp_path: Path) -> None:
    path = put(tmp_path, "many.yaml", f"{PROGRAM}---\nnote: x\n---\n{PROGRAM}")
    for is_named in (False, True):
        assert [document.data["name"] for document in contents(path, is_named=is_named).documents] == ["p", "p"]


@pytest.mark.parametrize(
    ("name", "text", "code", "says", "offers"),
    [
        ("compose.yaml", "services: 1\n", "SW001", "is not a program: it has no `steps`", "--skip-non-programs"),
        ("empty.yaml", "", "SW001", "it is empty", "steps"),
        ("text.yaml", "hello\n", "SW001", "it has no `steps`", "steps"),
        ("two.yaml", "a: 1\n---\nb: 2\n", "SW001", "it has no `steps`", "steps"),
        ("money.yaml", "policy: money\nguardrails: []\n", "SW001", "it is a policy", "--policy "),
        ("code.py", "x = 1\n", "SW001", "no dict in it is one", "--object"),
        ("made.py", "Program.from_dict({'steps': make()})\n", "SW001", "put together when it runs", "--object"),
        ("broken.yaml", "a: [\n", "SW001", "not readable as YAML", ""),
        ("broken.json", "{", "SW001", "not readable as JSON", ""),
        ("broken.py", "x = (\n", "SW001", "not readable as Python", ""),
    ],
)
def test_what_is_named_has_to_be_a_program(
    tmp_path: Path, name: str, text: str, code: str, says: str, offers: str
) -> None:
    given, message, help = problem(contents(put(tmp_path, name, text), is_named=True))
    assert given == code
    assert says in message
    assert offers in help


@pytest.mark.parametrize("text", ["step: []\ninputs: {}\n", "- {id: a, type: end}\n", "name: x\nguardrails: []\n"])
def test_what_is_nearly_a_program_is_left_to_its_model_to_refuse(tmp_path: Path, text: str) -> None:
    assert len(contents(put(tmp_path, "near.yaml", text), is_named=True).documents) == 1


def test_a_file_over_the_limit_is_looked_through_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "read_content", None)  # would be called if it were read
    other, program = tmp_path / "data.json", tmp_path / "program.json"
    for path, line in ((other, b'{"rows": {"steps": 1}'), (program, b'{"rows": 1, "steps": []')):
        with path.open("wb") as file:
            file.write(line)
            file.truncate(MAX_BYTES + 10)
    assert is_skipped(contents(other))
    code, message, _ = problem(contents(program))
    assert (code, f"{MAX_BYTES + 10:,}" in message) == ("SW004", True)
    assert problem(contents(other, is_named=True))[0] == "SW004"


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "p.yaml")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TargetError, match="can't be read: permission denied"):
        contents(path)


def test_the_format_goes_by_the_suffix() -> None:
    tabs = b'{\n\t"steps": 3}'
    assert read_content(tabs, "x.json", "x.json", must_be_program=True).documents[0].format == "json"
    assert read_content(tabs, "x.yaml", "x.yaml", must_be_program=True).documents[0].format == "yaml"


@pytest.mark.parametrize(
    ("text", "suffix", "expected"),
    [
        (b"steps:\n", ".yaml", True),
        (b"\xef\xbb\xbfsteps: 1", ".yaml", True),
        (b"  steps: 1", ".yaml", True),
        (b"a:\n  steps: 1", ".yaml", False),
        (b"mysteps: 1", ".yaml", False),
        (b"steps:x", ".yaml", False),
        (b"# steps:\na: 1", ".yaml", False),
        (b"{mysteps: 1", ".yaml", False),
        (b"--- {a: 1, steps: 1", ".yaml", True),
        (b'{"a": "}", "steps": 1', ".json", True),
        (b'{"a": "\\"}", "b": {"steps": 1', ".json", False),
        (b'[{"steps": 1', ".json", False),
        (b"# from_dict steps", ".py", False),
    ],
)
def test_steps_on_top_are_seen_in_texts_that_can_not_be_read(text: bytes, suffix: str, expected: bool) -> None:
    assert has_steps_on_top(text, suffix) is expected
