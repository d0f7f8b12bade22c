"""Checks certificates with code that shares nothing with the engine but the language: `stepward recheck`."""
