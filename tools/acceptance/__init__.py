"""An acceptance run: a whole environment on a real account, from nothing to nothing, with a report of what differed."""
