"""Loops, branches and functions, and what they hand on."""
