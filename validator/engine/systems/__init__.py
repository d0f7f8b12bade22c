"""Systems: the product of program and monitor as a transition system with guards and assignments."""
