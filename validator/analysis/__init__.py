"""What follows from a program: its graph, what is defined where, and the search of a program beside a monitor."""
