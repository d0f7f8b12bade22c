"""Scenes of several runs and of several stops."""
