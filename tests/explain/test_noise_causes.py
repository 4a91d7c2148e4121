"""Modules that compute the same: what still differs is named."""

from __future__ import annotations

import pytest
from module_edits import (
    shuffled,
    with_constants_split,
    with_dead_code,
    with_parameters_permuted,
)
from real_modules import graph

from xlagraph.explain import explain_modules


@pytest.mark.parametrize(
    ("edit", "kinds"),
    [
        (with_parameters_permuted, ["parameter-order"]),
        (with_dead_code, ["dead-code"]),
        (with_constants_split, ["repeated-constants"]),
        (shuffled, []),
    ],
)
def test_the_only_difference_is_named(edit, kinds):
    module = graph("carry:G")
    explanation = explain_modules(module, edit(module, 1))
    assert explanation.diff.same
    assert [cause.kind.id for cause in explanation.causes] == kinds
    assert str(explanation.verdict).startswith("Same computation")
