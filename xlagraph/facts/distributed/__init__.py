"""Buckets of collectives, kept parameters, shardings."""
