"""The layers that need no solver: finite classes, then single values."""
