"""Sorts of opcodes, by what they do to a tensor."""

PLUMBING = frozenset({"convert", "copy", "bitcast", "reshape", "pad", "slice", "transpose"})
"""Steps that bring a tensor into the form that a bucket wants."""
ELEMENTWISE = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"),
        *("negate", "abs", "exponential", "log", "tanh", "logistic", "sqrt", "rsqrt"),
    }
)
"""What keeps a tensor's shape and, with a scalar beside it, makes another of it alone."""
