"""`athanor sweep`: many runs of one command with different arguments, chosen by optuna."""
