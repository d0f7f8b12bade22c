"""What the prices have to keep to."""

from shop.prices import PRICES

assert PRICES["letter"] < PRICES["parcel"]
