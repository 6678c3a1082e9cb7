"""Reports of a rank about its steps, for people and for programs."""
