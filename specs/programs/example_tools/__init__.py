"""The tools of the example programs by subject. `tools.py` beside this folder has all of them."""
