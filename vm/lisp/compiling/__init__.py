"""Compilation of a Lisp program to a program of the language."""
