"""What the scenes of texts and of the Lisp share."""
