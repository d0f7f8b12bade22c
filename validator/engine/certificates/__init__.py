"""Certificates: proofs that can be checked without trusting the engine."""
