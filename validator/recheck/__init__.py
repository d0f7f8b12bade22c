"""Checks certificates with code that shares only the language with the engine: `stepward recheck`."""
