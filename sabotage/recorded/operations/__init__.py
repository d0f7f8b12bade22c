"""Scenes of random requests to machines."""
