"""Which inputs of two modules belong together, and what Python numbers are that do not."""
