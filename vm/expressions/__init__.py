"""Conditions and expressions: text to tree, tree to value, and `$refs` inside longer text."""
