"""Layers and losses by the names that programs call them by."""
