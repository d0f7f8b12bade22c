"""Stores for attacks: faulty, weak and forged ones, a plain model of a store, and a plain verifier."""
