"""What a training step does: gradients, clipping, optimizers and their state, passes."""
