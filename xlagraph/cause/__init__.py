"""Naming the cause of a difference, with evidence and proof."""

from xlagraph.cause.explain import explain_modules
from xlagraph.cause.model import BucketRow, Cause, Context, Evidence, Explanation

__all__ = [
    "BucketRow",
    "Cause",
    "Context",
    "Evidence",
    "Explanation",
    "explain_modules",
]
