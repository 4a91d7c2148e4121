"""Which tensors a step takes in, and which are alive as it ends."""
