"""Random programs, each played on the machine and on the reference interpreter in lockstep."""
