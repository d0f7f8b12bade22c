"""What makes a proof believed by somebody who does not trust the engine."""
