"""What a step is to a training."""
