"""The example of the README is what it says, and so are the lists and links of all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import click
import pytest

from paths import ROOT, TESTS
from stepward.validator import ProgramValidator
from stepward.validator.cli import main
from stepward.validator.engine.witnesses.replay import replay
from stepward.validator.rules.registry import RULES
from stepward.vm import Program

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = (ROOT / "specs/command.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def example(name: str) -> str:
    return next(block for block in blocks("yaml") if block.startswith(f"name: {name}\n"))


def test_the_hole_of_the_readme_is_one_that_a_reader_misses() -> None:
    """Its witness shows it, for some amounts only; without the bonus the same rule is proved, by the conditions."""
    program = example("gold_refund")
    assert program.count("\n") <= 20
    (finding,) = ProgramValidator(Program.from_yaml(program)).validate().findings
    assert finding.code == "SW401"
    assert finding.evidence is not None
    witness = finding.evidence.witness
    assert witness is not None
    assert replay(witness).confirmed
    assert witness.inputs == {"amount": 476}
    assert replay(replace(witness, inputs={"amount": 475})).confirmed is False
    mended = ProgramValidator(Program.from_yaml(program.replace("$amount + 25", "$amount"))).validate()
    assert not mended.findings
    assert {(one.verdict, one.evidence.layer) for one in mended.properties if one.rule == "manager-above-500"} == {
        ("proved", "finite abstraction")
    }


def test_the_hole_of_the_readme_is_an_example() -> None:
    text = (ROOT / "specs/programs/bad/SW401/gold-bonus.yaml").read_text(encoding="utf-8")
    assert text.endswith(example("gold_refund")), "with a comment above it"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_for_contributors_names_is_there(page: str) -> None:
    named = re.findall(
        r"`((?:vm|sabotage|validator|tests|specs|benchmarks)/[^`]*)`", (ROOT / page).read_text(encoding="utf-8")
    )
    assert len(named) > 15
    assert not [path for path in named if not list(ROOT.glob(path.replace("SWnnn", "SW101").rstrip("/")))]


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("specs/**/*.md"),
        ROOT / "tests/README.md",
        ROOT / "benchmarks/README.md",
    ]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(
            r"\]\(([^)#]+)[^)]*\)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        ):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_number_of_rules_in_the_changelog_is_true() -> None:
    assert len(RULES) == 63
    assert "sixty-three rules" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def every_command(command: click.Command) -> Iterator[click.Command]:
    yield command
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    for inner in filter(None, (command.get_command(context, name) for name in names)):  # type: ignore[attr-defined]
        yield from every_command(inner)


def test_the_page_of_the_command_names_every_option_and_no_other() -> None:
    described = set(re.findall(r"`(--[a-z-]+)", COMMAND)) - {"--help"}
    real = {
        option
        for command in every_command(main)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in ("--help", "--version")
    }
    assert described == real


def test_the_map_of_the_tests_names_every_file() -> None:
    text = (ROOT / "tests/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_[a-z0-9_]+)\*?(?:\.py)?`", text))
    for path in TESTS.rglob("test_*.py"):
        assert any(path.stem == name or (name == "test_cli" and path.stem.startswith(name)) for name in named), (
            path.name
        )


def test_what_make_offers_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    offered = re.findall(r"`make (\w+)`", README)
    assert offered
    for target in offered:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


# -- addresses ---------------------------------------------------------------------------------------------------------

KNOWN_ADDRESSES = {
    "github.com/andreasronge/ptc_runner",
    "github.com/aws-cloudformation/cfn-lint",
    "github.com/google/re2",
    "github.com/rhysd/actionlint",
    "docs.astral.sh",
    "docs.oasis-open.org",
    "docs.zizmor.sh",
    "json-schema.org",
}
"""The addresses that exist. A reader copies an address: one that we made up would be somebody else's."""

RESERVED = re.compile(r"(?:.*\.)?example\.(?:com|org|net)$|127\.0\.0\.1|localhost")
"""Hosts that nobody can own (RFC 2606), and this machine."""


def addresses(text: str) -> Iterator[str]:
    """Yield the host of each address in a text; for a code host with the owner and the repository."""
    for host, path in re.findall(r"https?://(\w[\w.-]+)(?::\{?[\w.]+\}?)?((?:/[\w.-]+)*)", text):
        yield "/".join([host, *path.split("/")[1:3]]) if host in ("github.com", "gitlab.com") else host


PAGES_AND_TEMPLATES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / ".pre-commit-hooks.yaml",
    ROOT / "pyproject.toml",
    *sorted((ROOT / "specs").rglob("*.md")),
    *sorted(path for path in (ROOT / "validator/templates").rglob("*") if path.is_file()),
]


def test_every_address_of_a_page_exists_or_is_reserved() -> None:
    for path in PAGES_AND_TEMPLATES:
        text = path.read_text(encoding="utf-8")
        assert {one for one in addresses(text) if not RESERVED.match(one)} <= KNOWN_ADDRESSES, path


def test_an_invented_address_is_found() -> None:
    text = "git+https://github.com/acme/stepward@main, https://stepward.dev/docs, http://127.0.0.1:8080/x"
    assert [one for one in addresses(text) if not RESERVED.match(one)] == ["github.com/acme/stepward", "stepward.dev"]
