"""Where sizes come from, and what follows from them."""
