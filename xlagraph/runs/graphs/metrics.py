"""Metrics of torchmetrics that keep all that they are given, as curves do without thresholds."""

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
    """A metric that the program makes, and that keeps all that it is given."""

    name: str
    line: SourceLine


def metric_computed(site: Sequence[Frame]) -> str:
    """The metric by whose own ``compute`` a value was read; empty if by none.

    A curve's name behind its task, as ``AUROC``; of any other the name of its file.
    """
    for frame in site:
        path = PurePath(frame.file)
        is_metric = path.parts[-3:-2] == ("torchmetrics",)
        if is_metric and frame.function.rpartition(".")[2] == "compute":
            is_counted = path.parts[-2] == "classification"  # but for curves
            return _CURVES.get(path.stem, "" if is_counted else path.stem)
    return ""


def is_curve(name: str) -> bool:
    """Whether a metric, as `metric_computed` calls it, has a fixed state with thresholds."""
    return name in _CURVES.values()


def made_to_keep_all(name: str, program: ProgramText) -> tuple[MadeMetric, ...]:
    """The calls in the program's stored lines that make such a metric, in their order.

    `name`: as `metric_computed` gives it; a curve that is given thresholds is none.
    """
    called = name if is_curve(name) else name.replace("_", "")
    made = re.compile(r"(?<![\w])([A-Z]\w*?)(?=\()")
    return tuple(
        MadeMetric(call[1], SourceLine(file, number))
        for file, lines in sorted(program.lines.items())
        if not SourceLine(file, 1).is_library
        for number in sorted(lines)
        for call in made.finditer(lines[number])
        if _is_of(call[1], called)
        and not (is_curve(name) and "thresholds" in _arguments(lines, number, call.end()))
    )


def _is_of(made: str, name: str) -> bool:
    """Whether a class is that of a metric: ``BinaryAUROC``, or ``SpearmanCorrCoef`` by its file."""
    if is_curve(name):
        return made in {task + name for task in ("", "Binary", "Multiclass", "Multilabel")}
    return name in made.lower()


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
