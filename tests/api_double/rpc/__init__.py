"""The RPC services: one module per product, each with its table of operations."""
