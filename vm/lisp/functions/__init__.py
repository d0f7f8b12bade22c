"""The functions of the Lisp, by subject; `table.py` has them all by name."""
