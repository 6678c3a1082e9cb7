"""The prose linter of `make check`: keeps phrases out that read as translated, and names that say nothing."""
