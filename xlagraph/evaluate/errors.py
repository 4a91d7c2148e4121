"""What the evaluator says of a module that it does not evaluate."""

from __future__ import annotations

from xlagraph.errors import XlagraphError


class NotEvaluatedError(XlagraphError):
    """An instruction of a module is not evaluated, or the module costs too much: the text says."""
