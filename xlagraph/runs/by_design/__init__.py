"""What is no problem: sorts of steps, stages, few sizes, and changes that somebody meant."""
