"""Acceptance runs: a whole environment on a real account, created and destroyed, with a report of differences."""
