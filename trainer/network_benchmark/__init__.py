"""How fast the processes of a job talk to each other, and what that does to training: one number per network."""
