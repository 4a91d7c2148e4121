"""Pieces of graph, and single operations, that one side has or computes in another way."""
