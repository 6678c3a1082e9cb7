"""`athanor sweep`: many runs of one command with other arguments, chosen by optuna."""
