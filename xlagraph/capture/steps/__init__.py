"""Calls that sync, followed from start to end: what ran, what compiled, and what is known of it."""
