"""Fast: what no command can use is refused in words: numbers that are none, and files that are no program or policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from shops import GIVEN, MAIL, shop, stepward
from stepward.validator.cli import main
from stepward.validator.cli.ranges import FileName, Real, Whole

pytestmark = pytest.mark.usefixtures("in_shop")

HUGE: Final = "9" * 23
NO_NUMBERS: Final = ("nan", "inf", "-inf", "1e300", "-1", "", "x", HUGE)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


PARAMETERS: Final = [
    pytest.param(words, one, id=f"{' '.join(words)} {one.name}")
    for words, command in commands(main)
    for one in command.params
]
NUMBERS: Final = [
    one for one in PARAMETERS if isinstance(one.values[1].type, click.types.FloatParamType | click.types.IntParamType)
]


def test_every_number_has_a_range() -> None:
    loose = [one.id for one in NUMBERS if not isinstance(one.values[1].type, Whole | Real)]  # type: ignore[attr-defined]
    assert len(NUMBERS) > 20
    assert loose == []


@pytest.mark.parametrize(("words", "option"), NUMBERS)
def test_a_number_that_is_none_is_refused(words: tuple[str, ...], option: click.Option) -> None:
    for text in NO_NUMBERS:
        result = stepward(*words, f"{option.opts[0]}={text}")
        assert result.exit_code == 2, text
        assert f"Invalid value for '{option.opts[0]}'" in result.output, text


def test_an_empty_text_names_no_file() -> None:
    loose = [one.id for one in PARAMETERS if type(one.values[1].type) is click.Path]
    assert loose == []
    assert len([one for one in PARAMETERS if isinstance(one.values[1].type, FileName)]) > 60


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_key_is_a_file(name: str) -> None:
    result = stepward("key", name)
    assert (result.exit_code, f"error: `{name}` is a folder" in result.stderr) == (2, True)
    assert "an empty text names no file" in stepward("key", "").stderr


@pytest.mark.parametrize("number", ["nan", "snan", "inf", "1e999999", "-1", "", HUGE])
def test_a_grant_is_a_number(number: str) -> None:
    shop("--run-id", "r")
    result = stepward("run", "shop.yaml", "--journal", "runs.db", "--continues", "r", "--grant", f"steps={number}")
    assert (result.exit_code, "adds nothing" in result.stderr or "adds more" in result.stderr) == (2, True)


def test_a_distance_ends_where_the_program_does() -> None:
    far = stepward("graph", "shop.yaml", "--around", "pay", "--distance", "1000000000", "--format", "mermaid")
    assert far.exit_code == 0, far.output


# -- files -----------------------------------------------------------------------------------------------------------

BAD: Final = {
    "typo.yaml": b"name: t\ninputs: {n: {type: integre}}\nsteps: [{id: e, type: end}]\n",
    "unknown.yaml": b"name: t\nstepps: []\n",
    "zero.yaml": b"",
    "no.yaml": b"a: [\n",
    "list.yaml": b"- 1\n",
    "binary.yaml": bytes(range(256)),
    "folder.yaml": None,
    "none.yaml": None,
}

PLACES: Final = (
    ("check", "FILE"),
    ("check", "shop.yaml", "--policy", "FILE"),
    ("report", "FILE", "-o", "out.html"),
    ("report", "shop.yaml", "--policy", "FILE", "-o", "out.html"),
    ("graph", "FILE"),
    ("graph", "shop.yaml", "--policy", "FILE"),
    ("sabotage", "FILE", "--examples", "1", "--attacks", "token-twice"),
    ("sabotage", "shop.yaml", "--policy", "FILE", "--examples", "1", "--attacks", "token-twice"),
    ("run", "FILE"),
    ("run", "shop.yaml", *GIVEN, "--policy", "FILE"),
    ("coverage", "FILE"),
    ("runs", "migrate", "wait", "--to", "FILE"),
    ("runs", "migrate", "wait", "--to", "shop.yaml", "--policy", "FILE"),
    ("runs", "recover", "wait", *GIVEN, "--policy", "FILE"),
    ("worker", "--once", *GIVEN, "--policy", "FILE"),
    ("replay", "runs.db", "wait", "--program", "FILE"),
    ("plan", "a task", "--model", "script:replies.yaml", "--policy", "FILE"),
    ("recheck", "FILE"),
    ("manifest", "FILE"),
)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_a_file_that_is_no_program_or_policy_is_refused(place: tuple[str, ...]) -> None:
    assert shop("--run-id", "wait", amount=60).exit_code == 4
    for name, content in BAD.items():
        if content is not None:
            Path(name).write_bytes(content)
        elif name == "folder.yaml":
            Path(name).mkdir()
        result = stepward(*(name if word == "FILE" else word for word in place))
        assert result.exit_code in (1, 2, 3), (name, result.output)
        assert result.output.strip(), name
        assert MAIL not in result.output
