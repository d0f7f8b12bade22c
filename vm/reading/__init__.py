"""Reads text into plain data, and finds the location of data in the text."""
