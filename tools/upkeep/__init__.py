"""What keeps the repository current: pinned requirements, and the pages of docs/ that are generated from code."""
