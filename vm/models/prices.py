"""What models cost: a table of prices that the operator writes, and the exact cost of a call by it.

Stepward ships no prices. They change, they differ from contract to contract, and a limit on costs would rest on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepward.vm.arguments import PATH, TEXT, require
from stepward.vm.errors import DocumentError
from stepward.vm.models.refusals import ModelRefused
from stepward.vm.reading.files import read_file
from stepward.vm.values import ValueRefused, exact

VERSION: Final = 1
"""The version of the format of a table."""

FIELDS: Final = ("input", "output", "cached_input")
LARGEST_PRICE: Final = 1_000_000
MOST_PLACES: Final = 12
"""Decimal places of a price, so that the cost of a call is short enough to be exact."""


class Usage(NamedTuple):
    """The tokens of one call; `cached` are those of the input that the provider had in its cache."""

    input: int
    output: int
    cached: int = 0


class Price(NamedTuple):
    """The prices of a million tokens of one model, in the currency of the table.

    Cached tokens of the input cost as much as others where the table has no price for them.
    """

    input: int | Decimal
    output: int | Decimal
    cached_input: int | Decimal | None = None

    def cost(self, usage: Usage) -> int | Decimal:
        """Return the exact cost of a call."""
        cached = min(usage.cached, usage.input)
        for_cached = self.input if self.cached_input is None else self.cached_input
        with localcontext() as context:
            context.prec = 100
            parts = (
                Decimal(usage.input - cached) * self.input,
                Decimal(cached) * for_cached,
                Decimal(usage.output) * self.output,
            )
            return exact(sum(parts, Decimal(0)).scaleb(-6))


class PriceTable:
    """A table of prices: `PriceTable({"small": {"input": Decimal("0.15"), "output": Decimal("0.60")}})`.

    The names are those that the adapters are made with. Prices are for a million tokens, in a currency of your choice;
    `cached_input` may be left out. Raises ModelRefused for a table that can't be used.
    """

    def __init__(self, models: Mapping[str, Mapping[str, Any]], *, name: str = "the table of prices") -> None:
        require(TEXT, name=name)
        self.name = name
        if not isinstance(models, Mapping):
            raise ModelRefused(f"{name}: `models` must be a mapping from names of models to their prices")
        self._prices = {model: _price(model, row, name) for model, row in models.items()}

    @classmethod
    def load(cls, file: str | Path) -> PriceTable:
        """Return the table in a YAML or JSON file; raises ModelRefused if it can't be read or used."""
        require(PATH, file=file)
        name = f"`{file}`"
        try:
            documents = read_file(Path(file))
        except OSError as error:
            raise ModelRefused(f"{name} can't be read: {(error.strerror or 'it is no file').lower()}") from None
        except DocumentError as error:
            raise ModelRefused(f"{name} can't be read: {error.problems[0].message}") from None
        problems = [problem for document in documents for problem in document.problems]
        if problems:
            raise ModelRefused(f"{name} can't be read: {problems[0].message}")
        data = documents[0].data if len(documents) == 1 else None
        if not isinstance(data, Mapping) or set(data) != {"version", "models"}:
            raise ModelRefused(f"{name} is no table of prices: it must have `version` and `models`, and nothing else")
        if data["version"] is True or data["version"] != VERSION:
            raise ModelRefused(f"{name} has version `{data['version']}`; this version of Stepward reads {VERSION}")
        return cls(data["models"], name=name)

    def price(self, model: str) -> Price:
        """Return the prices of a model; raises ModelRefused for one that the table does not have."""
        if model not in self._prices:
            raise ModelRefused(f"{self.name} has no price for model `{model}`; write 0 for a model that costs nothing")
        return self._prices[model]


def _price(model: object, row: object, table: str) -> Price:
    if not isinstance(row, Mapping) or not {"input", "output"} <= set(row) <= set(FIELDS):
        fields = "`input`, `output` and, if you like, `cached_input`"
        raise ModelRefused(f"{table}: the prices of `{model}` must be a mapping with {fields}")
    return Price(**{field: _number(value, f"{table}: `{field}` of `{model}`") for field, value in row.items()})


def _number(value: object, what: str) -> int | Decimal:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        with suppress(ValueRefused):
            number = exact(value)
            if 0 <= number <= LARGEST_PRICE and number == round(Decimal(number), MOST_PLACES):
                return number
    limits = f"from 0 to {LARGEST_PRICE:,}, with at most {MOST_PLACES} decimal places and without quotes"
    raise ModelRefused(f"{what} must be a number {limits}")
