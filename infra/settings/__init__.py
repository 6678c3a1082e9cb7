"""What a stack's configuration file may say: one module for each part, `stack.py` for the whole."""
