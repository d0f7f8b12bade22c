"""Systems: the product of program and monitor as a graph with guards and assignments."""
