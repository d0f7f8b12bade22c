"""Patterns of text types: their syntax, how a text is held against one, and the automata that decide about several."""
