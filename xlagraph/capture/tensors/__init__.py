"""The live tensors before a sync: their names, what holds them, and what waits in buckets."""
