"""Attacks on the user's own tools: the real functions are called, in a process that reaches nothing."""
