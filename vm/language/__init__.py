"""What a program is: its models, its control flow, its names and its types."""
