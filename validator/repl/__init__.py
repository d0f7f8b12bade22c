"""A session: a model or a person writes turns in Lisp; each is proved from the state after the one before, and run."""
