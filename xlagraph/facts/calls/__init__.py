"""Called computations: loops, functions, and what they hand on."""
