"""Programs that chance draws, each played on the machine and on the reference interpreter, step by step."""
