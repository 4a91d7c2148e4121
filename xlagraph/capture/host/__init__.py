"""The program that is captured: what it inherits, what is patched in it, and what it is told."""
