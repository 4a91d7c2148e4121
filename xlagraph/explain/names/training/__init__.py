"""Names of causes that concern losses, gradients and what an optimizer does with them."""
