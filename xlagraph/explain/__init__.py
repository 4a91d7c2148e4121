"""From a difference to an explanation: rules are asked, causes undone, and so proved."""

from xlagraph.explain.modules import explain_modules

__all__ = ["explain_modules"]
