"""Journals: the append-only records of runs, their hash chain, and the stores that hold them."""
