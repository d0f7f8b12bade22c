"""Patterns of text types: syntax, matching with RE2, and automata that decide questions about several patterns."""
