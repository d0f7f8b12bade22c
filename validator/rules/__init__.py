"""The rules: one class each, one file for a family, one explicit list of them all (`registry.py`)."""
