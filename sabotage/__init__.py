"""Attacks on the machine, and the oracle that judges what they come to."""
