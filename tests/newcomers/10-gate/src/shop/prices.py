"""Prices of the shop."""

PRICES = {"letter": 2, "parcel": 6}
