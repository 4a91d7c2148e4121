"""The steps of a run, turn by turn: what ran where, in which order, at what cost."""
