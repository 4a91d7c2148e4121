"""What a graph says of a training: weights, gradients, updates, optimizers, random masks."""
