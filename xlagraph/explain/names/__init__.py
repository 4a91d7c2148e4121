"""What causes of a pair are called: by the name of the edit, in place of operations."""
