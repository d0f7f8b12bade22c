"""Stores to attack with and to attack: faulty, weak, forged; a plain model and a plain verifier of them."""
