def send(address: str, idempotency_key: str) -> None: ...


def lookup(name: str) -> str:
    return name
