"""The cache believes nobody else's entries, and no damaged ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from caches import entries, is_hit, kept_bad
from commands import BAD, CLEAN, check, put
from stepward.validator.findings import Report
from stepward.validator.gate.cache import FOLDER, Cache

pytestmark = pytest.mark.usefixtures("in_own_project")


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


def test_lists_of_parts_have_different_keys() -> None:
    cache = Cache.open(Path(FOLDER), lambda: "version")
    assert cache is not None
    lists = [[], [b""], [b"", b""], [b"ab"], [b"a", b"b"], [b"", b"ab"], [b"1:a"], [b"a", b"1:"]]
    keys = [cache.key(parts) for parts in lists]
    assert len(set(keys)) == len(keys)
    other = Cache.open(Path(FOLDER), lambda: "other version")
    assert other is not None
    assert not set(keys) & {other.key(parts) for parts in lists}
