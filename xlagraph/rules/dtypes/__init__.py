"""Element types and precision."""
