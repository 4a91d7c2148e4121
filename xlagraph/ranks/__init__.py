"""Ranks against each other: what each ran, where they differ, whether collectives match."""
