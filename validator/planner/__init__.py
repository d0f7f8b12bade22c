"""Lets a model write a program: it proposes, the gate decides, and the machine records both."""
