"""The machine: a pure core that decides and applies, and a shell that acts."""
