"""The layers that ask Z3: conditions as terms, paths as formulas."""
