"""One case of an attack: its decisions, its runs, and the environment of the machine."""
