"""What a killed update left undecided in a stack's state: found in the account by name, and settled."""
