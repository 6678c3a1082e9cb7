"""Questions about jobs, answered by pure functions over API objects: what runs where, why not, what it prints."""
