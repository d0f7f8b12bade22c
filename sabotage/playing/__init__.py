"""One case of an attack: its decisions, the runs that it plays, and what stands around the machine meanwhile."""
