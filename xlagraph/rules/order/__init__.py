"""The same operations, operands or outputs in another order."""
