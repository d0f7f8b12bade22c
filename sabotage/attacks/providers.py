"""Providers of models: what is sent for the settings of a step, and what a call costs by a table of prices."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.vm.machine.models import ModelRequest
from stepward.vm.models.chat import settings_of
from stepward.vm.models.prices import PriceTable, Usage

TEMPERATURES: Final = (None, 0, 1, Decimal("0.5"), Decimal("0.0"))
LIMITS: Final = (None, 1, 200)

PRICES: Final[tuple[dict[str, Any], ...]] = (
    {"input": Decimal("0.15"), "output": Decimal("0.60")},
    {"input": Decimal("0.15"), "output": Decimal("0.60"), "cached_input": Decimal("0.075")},
    {"input": 3, "output": 15, "cached_input": 0},
    {"input": 0, "output": 2},
)
USAGES: Final = ((0, 0, 0), (1_000, 0, 0), (1_000, 10, 1_000), (999_999, 7, 400), (10, 1, 11), (0, 1_000_000, 0))
"""The tokens of the input, of the output, and those of the input that the provider had in its cache."""


class SettingsAndPrices(Attack):
    """A step says a temperature or a limit of zero, one or nothing; a provider counts tokens of its cache. What is sent
    and what is charged are compared with plain tables."""

    family = Family.INJECTION
    surface = "requests to providers, and their bills"
    action = "settings and counts at the edge"
    invariant = Invariant.BOUNDS
    defence = "what a step says is sent as it is, and each token costs its price"
    severity = "high"
    enumerates = "settings, prices and counts of tokens"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Compare each request, and each bill."""
        settings = [("settings", *one) for one in product(TEMPERATURES, LIMITS)]
        bills = [("bill", *one) for one in product(range(len(PRICES)), USAGES)]
        cases: list[tuple[str, Any, Any]] = [*settings, *bills]
        for what, one, other in case.each("the settings or the bill", cases):
            case.count()
            if what == "settings":
                self._send(case, one, other)
            else:
                self._pay(case, PRICES[one], other)
        return Outcome.ABSORBED

    def _send(self, case: Case, temperature: Any, limit: int | None) -> None:
        request = ModelRequest("?", None, None, None, "ask", 1, 1, None, temperature, limit)
        settings = {"temperature": temperature, "max_tokens": limit}
        found, due = settings_of(request), {name: value for name, value in settings.items() if value is not None}
        case.hold(found == due, Invariant.DATA, f"for {due} a step sends {found}")

    def _pay(self, case: Case, price: dict[str, Any], counts: tuple[int, int, int]) -> None:
        read, written, cached = counts
        cached = min(cached, read)
        parts = (
            (read - cached, price["input"]),
            (cached, price.get("cached_input", price["input"])),
            (written, price["output"]),
        )
        due = sum((Fraction(count) * Fraction(each) for count, each in parts), Fraction(0)) / 1_000_000
        cost = PriceTable({"m": price}).price("m").cost(Usage(*counts))
        case.hold(Fraction(cost) == due, self.invariant, f"{counts} tokens at {price} cost {cost}")
