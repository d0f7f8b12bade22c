"""The engine: what conditions decide, exactly as the machine evaluates them; one layer for what the last left open."""
