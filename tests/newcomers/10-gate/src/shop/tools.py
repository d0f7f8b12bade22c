"""The tools of the shop."""


def is_paid(order: str) -> bool:
    """Return whether an order is paid."""
    return True
