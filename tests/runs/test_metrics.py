"""A metric that keeps all scores is told where the program makes it."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.run.records import Frame
from xlagraph.runs.graphs.metrics import made_to_keep_all, metric_computed

PACKAGE = "/env/lib/python3.11/site-packages/torchmetrics"
CURVE = Frame(f"{PACKAGE}/functional/classification/roc.py", 60, "_binary_roc_compute")
AUROC = Frame(f"{PACKAGE}/classification/auroc.py", 125, "compute")
OWN = Frame("train.py", 12, "line")


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ((CURVE, AUROC, OWN), "AUROC"),
        ((CURVE, OWN), ""),  # a function keeps nothing
        ((Frame(f"{PACKAGE}/classification/accuracy.py", 9, "compute"), OWN), ""),
        ((Frame(f"{PACKAGE}/classification/auroc.py", 90, "update"), OWN), ""),
        ((Frame("classification/auroc.py", 9, "compute"), OWN), ""),
        ((Frame(f"{PACKAGE}/regression/spearman.py", 108, "compute"), OWN), "spearman"),
        ((Frame(f"{PACKAGE}/metric.py", 699, "compute"), OWN), ""),
    ],
)
def test_the_metric_whose_value_was_read(site, name):
    assert metric_computed(site) == name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = BinaryAUROC(validate_args=False)", ["BinaryAUROC"]),
        ("a = torchmetrics.AUROC(task='binary')", ["AUROC"]),
        ("a = BinaryAUROC(\n    validate_args=False,\n    thresholds=50,\n)", []),
        ("a = BinaryAUROC(f(2), thresholds=50)", []),
        ("a = MyBinaryAUROC()\nb = AUROCs()", []),
        ("a = BinaryAUROC()\nb = MulticlassAUROC(3)", ["BinaryAUROC", "MulticlassAUROC"]),
    ],
)
def test_where_it_is_made_to_keep_all(text, found):
    program = ProgramText({"train.py": dict(enumerate(text.split("\n"), 1))})
    assert [one.name for one in made_to_keep_all("AUROC", program)] == found


def test_where_a_metric_is_made_that_is_no_curve():
    line = "scores = MetricCollection({'r2': R2Score(), 'rho': SpearmanCorrCoef()})"
    program = ProgramText({"train.py": {7: line}})
    (made,) = made_to_keep_all("spearman", program)
    assert (made.name, made.line.line) == ("SpearmanCorrCoef", 7)
