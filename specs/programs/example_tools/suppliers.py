"""Offers of suppliers, and orders to them."""

from __future__ import annotations

from decimal import Decimal

from example_tools.values import Data, id_of
from stepward.vm import Suspend

_PRICES = {"north": Decimal("12.50"), "south": Decimal("11.90"), "west": Decimal("13.20")}


# The first letter of an article number stands for its supplier. Nobody sells an article with an X.
def read_product(sku: str) -> Data:
    supplier = {"N": "north", "S": "south", "W": "west"}[sku[0]]
    return {"sku": sku, "supplier": supplier, "price": _PRICES[supplier]}


def ask_buyer(sku: str, before: Decimal, after: Decimal) -> Suspend:
    return Suspend({"question": f"may {sku} cost {after} instead of {before}?"})


def write_product(product: Data) -> str:
    return id_of("PRD", product["sku"], product["price"])


def ask_supplier(name: str, item: str, pieces: int) -> Decimal:
    return _PRICES[name] * pieces


def best_offer(a: Decimal, b: Decimal, c: Decimal) -> Decimal:
    return min(a, b, c)


def approve_offer(price: Decimal) -> Suspend:
    return Suspend({"question": f"may we order for {price}?"})


def ask_quote(supplier: str, item: str) -> Decimal:
    return _PRICES[supplier] + len(item)


# Who did not answer has no quote.
def best_quote(suppliers: list[str], quotes: list[Decimal | None]) -> Data:
    found = [(price, name) for name, price in zip(suppliers, quotes, strict=True) if price is not None]
    price, name = min(found)
    return {"supplier": name, "price": price}


def approve_quote(supplier: str, price: Decimal) -> Suspend:
    return Suspend({"question": f"may we order from {supplier} for {price}?"})


def order_from(supplier: str, price: Decimal) -> str:
    return id_of("ORF", supplier, price)


def place_order(price: Decimal, pieces: int) -> str:
    return id_of("SUP", price, pieces)


def book_order(order: str) -> str:
    return id_of("BKO", order)


def find_offer(item: str) -> str:
    return id_of("OFF", item)


def ask_price(offer: str) -> int:
    return 100 + len(offer)


def approve_purchase() -> Suspend:
    return Suspend({"question": "may we buy it?"})


def place_purchase(amount: int) -> str:
    return id_of("PUR", amount)


def confirm_purchase(number: str) -> str:
    return id_of("CNF", number)
