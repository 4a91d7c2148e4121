"""What the program's own text says, and how a statement of it is written otherwise."""
