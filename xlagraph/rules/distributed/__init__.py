"""Several devices: buckets of collectives, kept parameters, shardings."""
