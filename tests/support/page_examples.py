"""The examples of the language's page: fenced blocks, one-line examples, and values as they are written there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pytest

from evaluations import lookup_in
from paths import ROOT
from stepward.vm.expressions.evaluator import Lookup
from stepward.vm.reading.document import Document
from stepward.vm.reading.yaml_format import read_yaml
from stepward.vm.values import freeze

SPECS: Final = ROOT / "specs"


PAGES: Final = {"language.md": SPECS / "language.md", "policies/README.md": SPECS / "policies" / "README.md"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its page and line, the first word of its tag, the rest of it, and its text."""

    page: str
    line: int
    tag: str
    rest: tuple[str, ...]
    text: str

    @property
    def options(self) -> dict[str, str]:
        return {key: value for key, _, value in (part.partition("=") for part in self.rest)}

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    for match in re.finditer(r"^```(.*)\n((?:(?!```).*\n)*)```$", text, re.MULTILINE):
        tag, *rest = match[1].split() or [""]
        yield Block(page, text.count("\n", 0, match.start()) + 1, tag, tuple(rest), match[2])


BLOCKS: Final = [block for page, path in PAGES.items() for block in blocks_of(page, path.read_text(encoding="utf-8"))]


def tagged(*tags: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.tag in tags]
    return pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in chosen])


def lines_of(*tags: str) -> pytest.MarkDecorator:
    """Parametrize over the lines of blocks, each with the place that it stands at."""
    lines = [
        pytest.param(line, id=f"{block.page}:{block.line + number}")
        for block in BLOCKS
        if block.tag in tags
        for number, line in enumerate(block.text.splitlines(), start=1)
    ]
    return pytest.mark.parametrize("line", lines)


def documents(block: Block) -> list[Document]:
    return read_yaml(block.name, block.text)


def read_value(text: str, position: int = 0) -> tuple[Any, int]:
    value, end = json.JSONDecoder(parse_float=Decimal).raw_decode(text, position)
    return freeze(value), end


def split_example(line: str) -> tuple[str, str, Lookup]:
    """Split `example => expected given name=value, …`."""
    example, arrow, rest = line.rpartition(" => ")
    assert arrow, f"no arrow in `{line}`"
    expected, _, given = rest.partition(" given ")
    state: dict[str, Any] = {}
    position = 0
    while position < len(given):
        match = re.compile(r",?\s*(\w+)=").match(given, position)
        assert match is not None, f"`{given}` is not written as `name=value, …`"
        state[match[1]], position = read_value(given, match.end())
    return example, expected.strip(), lookup_in(state)
