"""What follows from a program: its graph, what is defined where, and the verdict on every guardrail."""
