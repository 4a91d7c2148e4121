"""Metrics of torchmetrics that keep every score, as they do unless they are given thresholds."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.message import SourceLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.run.records import Frame

_CURVES = {
    "auroc": "AUROC",
    "average_precision": "AveragePrecision",
    "precision_fixed_recall": "PrecisionAtFixedRecall",
    "precision_recall_curve": "PrecisionRecallCurve",
    "recall_fixed_precision": "RecallAtFixedPrecision",
    "roc": "ROC",
    "sensitivity_specificity": "SensitivityAtSpecificity",
    "specificity_sensitivity": "SpecificityAtSensitivity",
}
"""Files of ``torchmetrics/classification``, and what their classes are called behind the task."""
_MANY_LINES = 12
"""So many lines a call of a constructor has at most."""


class MadeMetric(NamedTuple):
    """A metric that the program makes without thresholds."""

    name: str
    line: SourceLine


def curve_computed(site: Sequence[Frame]) -> str:
    """What the metric is called by whose own ``compute`` a value was read; empty if by none."""
    for frame in site:
        path = PurePath(frame.file)
        is_metric = path.parts[-3:-1] == ("torchmetrics", "classification")
        if is_metric and frame.function.rpartition(".")[2] == "compute":
            return _CURVES.get(path.stem, "")
    return ""


def made_without_thresholds(name: str, program: ProgramText) -> tuple[MadeMetric, ...]:
    """The calls in the program's stored lines that make such a metric, in their order.

    `name`: as `curve_computed` gives it.
    """
    made = re.compile(rf"(?<![\w])((?:Binary|Multiclass|Multilabel)?{name})(?=\()")
    return tuple(
        MadeMetric(call[1], SourceLine(file, number))
        for file, lines in sorted(program.lines.items())
        if not SourceLine(file, 1).is_library
        for number in sorted(lines)
        for call in made.finditer(lines[number])
        if "thresholds" not in _arguments(lines, number, call.end())
    )


def _arguments(lines: Mapping[int, str], number: int, begin: int) -> str:
    """What stands in the brackets that open at a place of a line, as far as it was stored."""
    text = lines[number][begin:]
    following = range(number + 1, number + _MANY_LINES)
    text += "\n".join(["", *(lines[n] for n in following if n in lines)])
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            return text[:k]
    return text
