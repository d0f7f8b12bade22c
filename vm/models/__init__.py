"""Adapters over the network, prices, recorded replies, the cache; `vm/machine/models.py` has the protocol."""
