"""The machine: a pure core that decides on actions and applies events, and a shell that performs the actions."""
