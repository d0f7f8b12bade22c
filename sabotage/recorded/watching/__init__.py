"""Scenes of runs that are watched."""
