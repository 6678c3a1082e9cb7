"""Runs: their stacks, and the commands that list, inspect and change them."""
