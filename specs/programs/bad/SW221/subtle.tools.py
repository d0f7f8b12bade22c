from typing import TypedDict


class Price(TypedDict):
    cents: float


def price_of(item: str, tags: list[str]) -> Price:
    return {"cents": 1.5}


async def report(cents: int, idempotency_key: str) -> str | None:
    return None
