"""Diagrams: a program as a picture, and the picture as DOT, SVG, PNG or Mermaid text (specs/diagrams.md)."""
