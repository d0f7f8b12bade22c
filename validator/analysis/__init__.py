"""What follows from a program: its graph, definite assignment, bounds, and the product of program and monitor."""
