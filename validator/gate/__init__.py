"""The run over many files: which are programs, what is configured, what is silenced or already known."""
