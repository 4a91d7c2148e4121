"""Pieces of graph that one side alone has, and where they end."""
