"""Rooms and parcels, with the errors of hotels, payment providers and carriers."""

from __future__ import annotations

from decimal import Decimal

from example_tools.values import id_of
from stepward.vm import ToolError

__all__ = [
    "book_flight",
    "book_hotel",
    "book_parcel",
    "charge_deposit",
    "confirm_booking",
    "quote_air",
    "quote_road",
    "release_room",
    "reserve_room",
    "return_flight",
    "return_hotel",
    "return_parcel",
    "send_payment_link",
    "send_tickets",
]
"""The tools, without the errors that they raise."""


class RoomTaken(Exception):  # noqa: N818 - the manifest lists it by this name
    """Somebody else has the room."""


class CardDeclined(Exception):  # noqa: N818 - as above
    """The bank of the customer refuses."""


def reserve_room(booking_id: str) -> str:
    if booking_id.endswith("9"):
        raise RoomTaken(f"the room of {booking_id} is taken")
    return id_of("ROM", booking_id)


def charge_deposit(booking_id: str, amount: Decimal) -> str:
    if amount > 1500:
        raise CardDeclined(f"no deposit of {amount}")
    return id_of("DEP", booking_id, amount)


def release_room(booking_id: str) -> str:
    return id_of("REL", booking_id)


def send_payment_link(booking_id: str, reason: str) -> str:
    return id_of("LNK", booking_id, reason)


def confirm_booking(booking_id: str) -> str:
    return id_of("CNF", booking_id)


def quote_air(parcel_id: str) -> Decimal:
    raise ToolError("NotServed", f"no plane takes {parcel_id}")


def quote_road(parcel_id: str) -> Decimal:
    return Decimal("7.90")


def book_parcel(parcel_id: str, carrier: str) -> str:
    return id_of("LBL", parcel_id, carrier)


def return_parcel(parcel_id: str) -> str:
    return id_of("RET", parcel_id)


def book_flight(trip_id: str) -> str:
    return id_of("FLT", trip_id)


def book_hotel(trip_id: str, nights: int) -> str:
    if nights > 20:
        raise ToolError("SoldOut", f"no room for {nights} nights")
    return id_of("HTL", trip_id, nights)


def return_flight(flight: str) -> str:
    return id_of("FLR", flight)


def return_hotel(hotel: str) -> str:
    return id_of("HTR", hotel)


def send_tickets(flight: str, hotel: str) -> str:
    return id_of("TIX", flight, hotel)
