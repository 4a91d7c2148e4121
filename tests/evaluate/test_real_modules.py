"""Real modules, evaluated here and by XLA's CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from real_modules import real_texts
from xla_oracle import NoAnswerError, Oracle

from xlagraph.evaluate import NotEvaluatedError, evaluate
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.draws import argument_like
from xlagraph.evaluate.program import Program
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


@pytest.mark.parametrize("name", NAMES[::4])
def test_what_is_taken_over_is_what_would_be_computed(name):
    """Each input in turn is another one; all that depends on it has to be computed again."""
    program = Program(read_module(TEXTS[name], name))
    chance = np.random.default_rng(5)
    given = [argument_like(shape, k, is_other=False) for k, shape in enumerate(program.parameters)]
    first = program.values(given, Budget())
    for k in chance.permutation(len(given))[:6]:
        changed = [*given]
        changed[k] = argument_like(program.parameters[k], k, is_other=True)
        taken_over = program.outputs_of(program.values(changed, Budget(), first))
        computed = program.run(changed, Budget())
        assert all(map(np.array_equal, taken_over, computed, [True] * len(computed)))


def _is_close(x: np.ndarray, y: np.ndarray) -> bool:
    """Of a bias before a normalisation the gradient cancels, and Adam divides noise by its size."""
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    size = np.abs(y[np.isfinite(y)]).max(initial=1e-30)
    return np.allclose(x, y, rtol=2e-3, atol=2e-3 * size, equal_nan=True)


def test_most_are_evaluated():
    assert len(NAMES) >= 25
