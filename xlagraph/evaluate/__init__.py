"""Evaluating modules with numpy, and telling by it whether two of them give the same values."""

from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.evaluate.program import evaluate
from xlagraph.evaluate.question import SameValues
from xlagraph.evaluate.same import same_for_equal_inputs, same_values

__all__ = [
    "NotEvaluatedError",
    "SameValues",
    "evaluate",
    "same_for_equal_inputs",
    "same_values",
]
