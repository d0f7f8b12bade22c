"""What the references of conditions can hold, and how finely conditions look at it."""
