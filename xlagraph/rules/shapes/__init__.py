"""Sizes, slice bounds, layouts, and other attributes."""
