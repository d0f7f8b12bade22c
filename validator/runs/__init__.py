"""What the records of runs tell by themselves: how two runs differ, and the same runs in formats of other tools."""
