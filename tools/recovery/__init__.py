"""Recovery from a killed update: pending operations in a stack's state, settled by resources in the account."""
