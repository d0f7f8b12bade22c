"""From text to plain data, and back from data to the place in the text."""
