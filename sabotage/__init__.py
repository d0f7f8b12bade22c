"""The first floor: attacks on the machine, and the oracle that judges them. Nothing is here yet."""
