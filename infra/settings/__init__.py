"""The schema of a stack's configuration file: one module for each part, `stack.py` for the whole."""
