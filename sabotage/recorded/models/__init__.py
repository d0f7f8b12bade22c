"""Scenes of models and tools."""
