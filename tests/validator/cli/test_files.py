"""Files that the command writes: in one step, and never through a link that somebody else has put there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from paths import ROOT
from stepward.validator.cli import main
from stepward.validator.cli.output import write_output
from stepward.vm.writing import put

GOLD_BONUS = ROOT / "specs/programs/bad/SW401/gold-bonus.yaml"
APPROVED = ROOT / "specs/programs/good/customer_refund.yaml"

posix = pytest.mark.skipif(os.name != "posix", reason="links and permissions are another thing elsewhere")


@posix
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(precious)
    put(link, b"new")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("precious", "new", False)


@posix
def test_a_file_has_the_permissions_of_new_files_unless_others_are_given(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.write_text("")
    put(tmp_path / "put", b"")
    put(tmp_path / "private", b"", mode=0o600)
    assert (tmp_path / "put").stat().st_mode == usual.stat().st_mode
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_what_can_not_be_put_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        put(tmp_path / "folder", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@posix
@pytest.mark.parametrize(("option", "program"), [("--witnesses", GOLD_BONUS), ("--certificates", APPROVED)])
def test_reports_that_are_many_files_replace_links(tmp_path: Path, option: str, program: Path) -> None:
    folder, precious = tmp_path / "found", tmp_path / "precious"
    command = ["check", str(program), "--isolated", "--no-cache", option, str(folder)]
    CliRunner().invoke(main, command)
    names = sorted(path.name for path in folder.iterdir())
    assert names
    precious.write_text("precious")
    for name in names:
        (folder / name).unlink()
        (folder / name).symlink_to(precious)
    CliRunner().invoke(main, command)
    assert precious.read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == names
    assert not any((folder / name).is_symlink() for name in names)


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let this process write files of so many bytes at most; Python ignores the signal that says so."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@posix
def test_a_file_that_can_not_be_written_whole_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk; here the limit of the process for files stands for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "old.json").write_text("{}")
    for arguments in (
        ["key", "k"],
        ["check", str(APPROVED), "--no-cache", "--isolated", "--output-file", "new.txt"],
        ["check", str(APPROVED), "--no-cache", "--isolated", "--output-file", "old.json"],
        ["graph", str(APPROVED), "-o", "new.dot"],
    ):
        with limited_files(10):
            done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2, (arguments, done.stderr)
        assert "can't be written: file too large" in done.stderr, done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["old.json"], arguments
    assert (tmp_path / "old.json").read_text() == "{}"


@posix
def test_a_file_that_an_option_names_is_what_it_was(tmp_path: Path) -> None:
    whole, link = tmp_path / "whole", tmp_path / "link"
    whole.write_text("old")
    whole.chmod(0o640)
    link.symlink_to(whole)
    write_output(link, "new", "")
    assert (whole.read_text(), link.is_symlink(), whole.stat().st_mode & 0o777) == ("new", True, 0o640)
    write_output(Path(os.devnull), "nothing", "")
    assert not Path(os.devnull).is_file()
