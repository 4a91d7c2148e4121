"""What rules ask about two modules: buckets, updates, sizes, pieces, how changes propagate."""
