"""Runs that show a violation: found along a path, told as inputs and answers, replayed on the machine."""
