"""xlagraph names the cause when PyTorch/XLA training recompiles."""
