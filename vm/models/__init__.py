"""Adapters to models over the network, their prices, and recorded replies; `vm/machine/models.py` has the protocol."""
