"""Scenes of keys and of what they sign and encrypt."""
