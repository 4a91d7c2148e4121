"""Each graph of a run by itself, as a sketch and by what its capture tells."""
