"""Counterexamples: runs that show a violation, found along a path, written as inputs and answers, replayed on the
machine."""
