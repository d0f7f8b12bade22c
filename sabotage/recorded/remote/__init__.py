"""Scenes of MCP servers."""
