"""Causes that are an option of an operation, or the order of what it takes."""
