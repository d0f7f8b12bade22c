"""Attacks on the machine, and the oracle that judges the outcome."""
