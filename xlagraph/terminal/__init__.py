"""Explanations as text for a terminal, verdict first."""
