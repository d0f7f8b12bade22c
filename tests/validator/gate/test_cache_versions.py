"""The cache of other code, of another library, Python or solver is not ours; what is not sure is not kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from caches import entries, is_hit, put_programs
from commands import CLEAN, check, put
from layers import impatient
from paths import PROGRAMS, ROOT
from stepward.validator.gate import version
from stepward.validator.gate.cache import FOLDER

pytestmark = pytest.mark.usefixtures("in_own_project")


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
    main(["check", "--output-format=json", "--sarif-output=s", "--no-cache", "--time-limit=0.2"], standalone_mode=False)
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
def test_an_unknown_result_is_not_stored(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    shutil.copy(sorted((PROGRAMS / "bad/SW408").glob("*.yaml"))[0], "p.yaml")
    for _ in range(2):
        assert not is_hit(checked)
    assert entries() == []


@pytest.mark.parametrize(("options", "seconds"), [((), 60), (("--time-limit=5",), 5)])
def test_a_result_near_the_deadline_is_not_stored(
    checked: list[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], seconds: int
) -> None:
    put("good.yaml", CLEAN)
    with monkeypatch.context() as slow:
        clock = iter(range(0, 10**6, seconds))
        slow.setattr("stepward.validator.gate.checking.time.monotonic", lambda: next(clock))
        assert not is_hit(checked, *options)
    assert not is_hit(checked, *options)
    assert is_hit(checked, *options)
