"""The review page: programs, findings, proofs, witnesses, attacks and runs in one file for a browser."""
