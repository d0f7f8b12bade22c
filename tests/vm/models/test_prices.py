"""Fast: tables of prices: what is read, what is refused, and exact costs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepward.vm import ModelRefused, PriceTable
from stepward.vm.models.prices import Price, Usage

TABLE = """
version: 1
models:
  small: {input: 0.15, output: 0.60, cached_input: 0.075}
  local: {input: 0, output: 0}
"""


def test_a_table_is_read_exactly(tmp_path: Path) -> None:
    for name, text in (
        ("p.yaml", TABLE),
        ("p.json", '{"version": 1, "models": {"small": {"input": 0.15, "output": 0.6, "cached_input": 0.075}}}'),
    ):
        (tmp_path / name).write_text(text)
        price = PriceTable.load(tmp_path / name).price("small")
        assert price == Price(Decimal("0.15"), Decimal("0.6"), Decimal("0.075"))
    assert PriceTable({"m": {"input": 0.1, "output": 3}}).price("m") == Price(Decimal("0.1"), 3)


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (Price(2, 10), Usage(1_000_000, 1_000_000), 12),
        (Price(2, 10), Usage(1, 1), Decimal("0.000012")),
        (Price(2, 10, 1), Usage(10, 0, 4), Decimal("0.000016")),
        (Price(2, 10), Usage(10, 0, 4), Decimal("0.00002")),
        (Price(2, 10, 1), Usage(10, 0, 400), Decimal("0.00001")),
        (Price(0, 0), Usage(10, 10), 0),
        (
            Price(Decimal("999999.999999999999"), Decimal("0.000000000001")),
            Usage(2**53, 1),
            Decimal("9007199254740991.990992800745259009"),
        ),
    ],
)
def test_a_cost_is_exact(price: Price, usage: Usage, cost: Any) -> None:
    assert price.cost(usage) == cost
    assert isinstance(price.cost(usage), int | Decimal)


ROW = "the prices of `m` must be a mapping with `input`, `output` and, if you like, `cached_input`"
NUMBER = "`input` of `m` must be a number from 0 to 1,000,000, with at most 12 decimal places and without quotes"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no table of prices: it must have `version` and `models`, and nothing else"),
        ("[1]", "is no table of prices"),
        ("version: 1", "is no table of prices"),
        ("{version: 1, models: {}, currency: USD}", "is no table of prices"),
        ("{version: 1, models: {}}\n---\n{version: 1, models: {}}", "is no table of prices"),
        ("{version: 2, models: {}}", "has version `2`; this version of Stepward reads 1"),
        ("{version: true, models: {}}", "has version `True`"),
        ("{version: 1, models: []}", "`models` must be a mapping"),
        ("{version: 1, models: {m: 3}}", ROW),
        ("{version: 1, models: {m: {input: 1}}}", ROW),
        ("{version: 1, models: {m: {input: 1, output: 1, cached: 1}}}", ROW),
        ("{version: 1, models: {m: {input: '1', output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: -1, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: true, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: .nan, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: 1000001, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: 0.0000000000001, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: 1e-999999, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: 1e999999, output: 1}}}", NUMBER),
        ("{version: 1, models: {m: {input: 1, input: 2, output: 1}}}", "can't be read: "),
        ("{", "can't be read: "),
        ("\x00", "can't be read: "),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(ModelRefused) as found:
        PriceTable.load(file)
    assert words in str(found.value)
    assert str(found.value).startswith(f"`{file}`")


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelRefused, match=r"can't be read: (no such file|is a directory)"):
        PriceTable.load(tmp_path / name)


def test_a_model_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(ModelRefused, match="the table of prices has no price for model `m`; write 0 for a model that"):
        PriceTable({}).price("m")
