"""What acts on the world, when, and on which thread."""
