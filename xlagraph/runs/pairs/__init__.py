"""Pairs of graphs that are explained: which ones, by whom, and where the answers are kept."""
