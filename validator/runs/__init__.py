"""What the records of runs tell by themselves: how two runs differ, what was changed in a record, formats of others."""
