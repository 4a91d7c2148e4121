"""Pairs of graphs that are two kinds of step of a training, each of which compiles once."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SIZES = (3, 5, 7, 2)
AXES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BACK = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"


def step(updated: range = range(3), *, gradients: bool = False, sizes=SIZES, rows: int = 4) -> str:
    """A step of three layers that updates those of `updated`, or gives back their gradients."""
    inputs = [f"x = f32[{rows},{sizes[0]}] parameter(0)"]
    body, outputs, last = [], [(f"f32[{rows},{sizes[3]}]", "h2")], "x"
    for k in range(3):
        n, m = sizes[k : k + 2]
        inputs.append(f"w{k} = f32[{n},{m}] parameter({k + 1})")
        body += [f"d{k} = f32[{rows},{m}] dot({last}, w{k}), {AXES}"]
        body += [f"h{k} = f32[{rows},{m}] tanh(d{k})"]
        if k in updated or gradients:
            body += [f"g{k} = f32[{n},{m}] dot({last}, h{k}), {BACK}"]
        if k in updated:
            body += [f"n{k} = f32[{n},{m}] subtract(w{k}, g{k})"]
        if k in updated or gradients:
            outputs.append((f"f32[{n},{m}]", f"{'n' if k in updated else 'g'}{k}"))
        last = f"h{k}"
    text = "\n  ".join((*inputs, *body))
    shapes, names = (", ".join(one) for one in zip(*outputs, strict=True))
    return f"HloModule step\n\nENTRY main {{\n  {text}\n  ROOT r = ({shapes}) tuple({names})\n}}\n"


TRAINS = step()
EVALUATES = step(range(0), rows=6)
MICRO_BATCH = step(range(0), gradients=True)
OTHER = step(sizes=(9, 11, 13, 15))


def said(a: str, b: str) -> tuple[str, str]:
    verdict = explain_modules(read_module(a), read_module(b)).verdict
    return str(verdict.what), str(verdict.fix)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("other", "what", "fix"),
    [
        (EVALUATES, "computes the forward pass alone, as an evaluation does: it updates none of",
         "None for an evaluation"),
        (MICRO_BATCH, "is a micro-batch: it gives back gradients and updates none of the 3 weights",
         "None if gradients are accumulated"),
        (OTHER, "Two networks are trained, each by its own graph: A 3 weights, B 3 weights.",
         "None if they are trained in turn"),
    ],
)  # fmt: skip
def test_kinds_of_step_are_told_as_that(other: str, what: str, fix: str, turned: bool) -> None:
    told, mend = said(*((other, TRAINS) if turned else (TRAINS, other)))
    assert what in told
    assert mend.startswith(fix)


@pytest.mark.parametrize(
    "other",
    [step(rows=6), step(range(1)), step(range(0), gradients=True).replace("tanh", "sine"), TRAINS],
    ids=["another batch", "frozen layers", "micro-batch", "the same"],
)
def test_steps_of_one_kind_are_not(other: str) -> None:
    base = step(range(0), gradients=True) if "sine" in other else TRAINS
    told, _ = said(base, other)
    assert not any(words in told for words in ("micro-batch", "evaluation", "networks"))
