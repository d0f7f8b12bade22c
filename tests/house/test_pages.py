"""Every command and every Python block of the README and the guide is run, in an empty folder."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chat_server import chat_server, said
from pages import Block, Reader, blocks_of, matches
from paths import ROOT
from stepward.validator.python_page import public_names, python_page

GUIDE = sorted((ROOT / "specs/guide").rglob("*.md"))
PAGES = [ROOT / "README.md", *(page for page in GUIDE if page.name != "python.md")]
SERVER = "postgresql://stepward@localhost/stepward"
"""The server of the pages; a test puts that of the tests in its place."""
MODEL_SERVER = "http://127.0.0.1:8000/v1"
"""The server of models of the pages; a test puts one in its place that always says `spam`."""

INSTALLS = ["not run: it installs from the network"]
NOT_RUN = {
    "specs/guide/first-workflow.md": INSTALLS,
    "specs/guide/how-to/analyze.md": INSTALLS,
    "specs/guide/how-to/mcp-tools.md": INSTALLS,
    "specs/guide/how-to/mcp.md": INSTALLS,
    "specs/guide/how-to/opentelemetry.md": INSTALLS,
    "specs/guide/how-to/postgresql.md": INSTALLS,
    "specs/guide/how-to/studio.md": [*INSTALLS, "not run: it serves until it is interrupted"],
    "specs/guide/how-to/breakers.md": ["not run: it needs a baseline"],
    "specs/guide/how-to/clusters.md": [*INSTALLS, "not run: it needs a cluster", "not run: it needs a cluster"],
    "specs/guide/how-to/workers.md": ["not run: it serves until it is interrupted"],
}
"""The blocks that no test runs, and why, by page."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def url_of(conninfo: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(conninfo)
    return f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "ignore::UserWarning")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return Reader(tmp_path)


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn", "warm")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_reader_can_do_what_a_page_says(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    if SERVER in text_of(page):
        reader.replacements[SERVER] = url_of(request.getfixturevalue("empty_postgres"))
    with ExitStack() as servers:
        if MODEL_SERVER in text_of(page):
            server = servers.enter_context(chat_server())
            server.answers = [said('{"reply": "spam"}')]
            reader.replacements[MODEL_SERVER] = server.url
        reader.read(blocks_of(text_of(page)))


def test_what_is_not_run_is_known() -> None:
    found = {
        name_of(page): notes
        for page in PAGES
        if (notes := [b.note for b in blocks_of(text_of(page)) if b.note.startswith("not run: ")])
    }
    assert found == NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_of_a_kind_that_is_run_or_read(page: Path) -> None:
    for block in blocks_of(text_of(page)):
        assert block.language in {"console", "python", "yaml", "toml", "mermaid", "text", "clojure"}, block.line
        assert block.language not in {"yaml", "toml"} or block.file or block.note, f"line {block.line} names no file"


def test_the_readme_is_short_and_begins_with_a_finding() -> None:
    lines = text_of(ROOT / "README.md").splitlines()
    assert len(lines) < 130
    assert any(line.startswith("error[SW401]") for line in lines[:25])
    assert any("with amount = 476" in line for line in lines[:25])


def test_every_page_of_the_guide_can_be_reached_from_the_readme() -> None:
    seen, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        seen.add(page)
        links = re.findall(r"\]\(([^)#]+\.md)[^)]*\)", text_of(page))
        pending += [path for one in links if "://" not in one and (path := (page.parent / one).resolve()) not in seen]
    assert set(GUIDE) <= seen


def test_the_python_reference_is_fresh_and_has_every_public_name() -> None:
    page = text_of(ROOT / "specs/guide/python.md")
    assert page == python_page(), "make docs"
    for module in ("stepward.vm", "stepward.validator"):
        assert public_names(module)
        assert all(f"\n### `{name}`\n" in page for name in public_names(module))


# -- the runner itself -------------------------------------------------------------------------------------------------


def page_of(*blocks: tuple[str, str, str]) -> list[Block]:
    return blocks_of("\n\n".join(f"{note}\n```{kind}\n{text}\n```".strip() for kind, text, note in blocks))


def test_the_runner_saves_runs_and_compares(reader: Reader) -> None:
    blocks = page_of(
        ("yaml", "# a/b.yaml\nx: 1", ""),
        ("console", "$ cat a/b.yaml\n# a/b.yaml\n…: 1\n$ cd a\n$ ls", ""),
        ("python", "from pathlib import Path\nPath('c').write_text('done')", ""),
        ("console", "$ cat c\n...\n$ false", "<!-- status: 1 -->"),
        ("console", "$ false", "<!-- not run: no reason -->"),
    )
    reader.read(blocks)
    assert (reader.folder / "a/c").read_text() == "done"


@pytest.mark.parametrize(
    "blocks",
    [
        [("console", "$ echo one\ntwo", "")],
        [("console", "$ false", "")],
        [("console", "$ true", "<!-- status: 1 -->")],
        [("python", "assert False", "")],
        [("console", "$ stepward chekc", "")],
        [("console", "echo one", "")],
    ],
)
def test_the_runner_fails_where_a_page_is_wrong(blocks: list[tuple[str, str, str]], reader: Reader) -> None:
    with pytest.raises(AssertionError):
        reader.read(page_of(*blocks))


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\n...", "a\nb\nc", True),
        ("...\nc", "a\nb\nc", True),
        ("a … c", "a b c", True),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
    ],
)
def test_dots_stand_for_what_changes(shown: str, printed: str, expected: bool) -> None:
    assert matches(shown, printed) is expected
