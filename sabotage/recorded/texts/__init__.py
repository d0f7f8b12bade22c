"""Scenes of programs, policies and other texts."""
