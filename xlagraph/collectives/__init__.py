"""The collectives of a module, in the order in which a device comes to them."""
