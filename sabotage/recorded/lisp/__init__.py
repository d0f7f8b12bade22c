"""Scenes of the Lisp."""
