"""Short scenes on the machine, and what came of each when the release was recorded."""
