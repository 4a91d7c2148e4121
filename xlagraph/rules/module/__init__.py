"""The module as a whole: its header, and modules that are the same computation."""
