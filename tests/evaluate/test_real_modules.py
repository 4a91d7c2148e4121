"""Real modules, evaluated here and by XLA's CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from real_modules import real_texts
from xla_oracle import NoAnswerError, Oracle

from xlagraph.evaluate import NotEvaluatedError, evaluate
from xlagraph.hlo import read_module

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = real_texts()
STAND_INS = ("rng-bit-generator", "all-", "reduce-scatter", "collective-", "replica-id")
"""What has no value of its own on one device."""
ROUNDS = ("bf16[", "f16[", "f8e")
"""Types whose arithmetic rounds more than a converted value does."""
NAMES = [
    name
    for name in sorted(TEXTS)[::12]
    if len(TEXTS[name]) < 400_000
    and not any(word in TEXTS[name] for word in (*STAND_INS, *ROUNDS, "is_scheduled=true"))
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


@pytest.mark.parametrize("name", NAMES)
def test_xla_computes_the_same(oracle, name):
    try:
        arguments, wanted = oracle.values(TEXTS[name])
        found = evaluate(read_module(TEXTS[name], name), arguments)
    except (NoAnswerError, NotEvaluatedError) as error:
        pytest.skip(str(error))
    assert len(found) == len(wanted)
    assert sum(map(_is_close, found, wanted)) >= 0.85 * len(wanted)


def _is_close(x: np.ndarray, y: np.ndarray) -> bool:
    """Of a bias before a normalisation the gradient cancels, and Adam divides noise by its size."""
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    size = np.abs(y[np.isfinite(y)]).max(initial=1e-30)
    return np.allclose(x, y, rtol=2e-3, atol=2e-3 * size, equal_nan=True)


def test_most_are_evaluated():
    assert len(NAMES) >= 25
