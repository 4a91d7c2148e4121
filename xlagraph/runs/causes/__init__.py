"""Causes that only a whole run shows: what grows, what Python draws, what is attached again."""
