"""The engine: decides what depends on conditions, exactly as the machine evaluates them, in layers from cheap to
dear."""
