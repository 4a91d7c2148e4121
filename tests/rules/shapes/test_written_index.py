"""A Python number at which values are written into a tensor."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

WRITTEN = "u = f32[8,4] dynamic-update-slice(x, v, k, zero)"
TAKEN = "u = f32[1,4] dynamic-slice(x, k, zero), dynamic_slice_sizes={1,4}"
COUNTED = f"{WRITTEN}\ns = s64[] add(n, k)"
FILLED = "w = s64[1,4] broadcast(k), dimensions={}\nu = s64[8,4] dynamic-update-slice(y, w, n, n)"


def module(k: int, operation: str = WRITTEN, name: str = "SyncTensorsGraph.9"):
    lines = (
        "x = f32[8,4] parameter(0)",
        "v = f32[1,4] parameter(1)",
        "n = s64[] parameter(2)",
        "y = s64[8,4] parameter(3)",
        "zero = s64[] constant(0)",
        f"k = s64[] constant({k})",
        *operation.splitlines(),
    )
    given = [line.split()[:3] for line in operation.splitlines()]
    shapes, names = ", ".join(shape for *_, shape in given), ", ".join(one for one, *_ in given)
    body = "".join(f"  {line}\n" for line in (*lines, f"ROOT r = ({shapes}) tuple({names})"))
    return read_module(f"HloModule {name}\nENTRY main {{\n{body}}}\n")


def test_the_place_where_values_are_written_is_an_index():
    explanation = explain_modules(module(5), module(6))
    (cause,) = explanation.causes
    assert explanation.proved
    assert str(cause.kind) == "python-index"
    assert str(cause.in_short) == "Values are written at another Python index: 5 became 6"
    assert "index_copy_" in str(cause.fix_in_short)
    assert "5 became 6" in str(cause.title)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (COUNTED, "SyncTensorsGraph.9"),
        (FILLED, "SyncTensorsGraph.9"),
        (TAKEN, "SyncTensorsGraph.9"),
        (WRITTEN, "jit_step"),
    ],
)
def test_what_is_computed_with_or_written_itself_stays_a_number(operation, name):
    """And what torch.roll takes from; and what JAX traces: it can be an argument."""
    (cause,) = explain_modules(module(5, operation, name), module(6, operation, name)).causes
    assert str(cause.kind) == "constant-value"
