"""Modules that hold the same tensors in other forms: joined, stacked, cut or turned."""
