"""Attacks on the user's own tools: the real functions are called in an isolated process."""
