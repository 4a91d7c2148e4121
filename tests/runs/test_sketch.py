"""What is kept of each graph of a run."""

from __future__ import annotations

import json

from real_modules import graphs

from xlagraph.hlo import read_module
from xlagraph.runs.graphs.sketch import Shared, Sketch, sketch_of
from xlagraph.runs.pairs.codec import decode, encode


def test_equal_parts_of_sketches_are_shared() -> None:
    """Of graphs that were read apart, as from the cache: no text or tuple is kept twice."""
    shared = Shared()
    for module in graphs("carry"):
        sketch = sketch_of(module)
        copies = [decode(Sketch, json.loads(json.dumps(encode(sketch)))) for _ in range(2)]
        a, b = (shared.sketch(one) for one in copies)
        for one in (a, b):
            assert (one.instructions, one.counts, one.files) == (
                *(sketch.instructions, sketch.counts, sketch.files),
            )
            assert (one.interface, one.replaced) == (sketch.interface, sketch.replaced)
        assert a.interface is b.interface
        assert a.replaced is b.replaced
        assert all(x is y for x, y in zip(a.counts, b.counts, strict=True))


MOVED = """HloModule m

ENTRY %e (used: f32[4], moved: f32[4], as_is: f32[4]) -> (f32[4], f32[4], f32[4]) {
  %used = f32[4]{0} parameter(0)
  %moved = f32[4]{0} parameter(1)
  %as_is = f32[4]{0} parameter(2)
  %y = f32[4]{0} exponential(%used), metadata={op_type="a" source_file="/t.py" source_line=3}
  %a = f32[4]{0} add(%used, %y), metadata={op_type="a" source_file="OPTIMIZER" source_line=3}
  %b = f32[4]{0} add(%moved, %y), metadata={op_type="a" source_file="OPTIMIZER" source_line=3}
  ROOT %r = (f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(%a, %b, %as_is)
}
""".replace("OPTIMIZER", "/l/site-packages/torch/optim/sgd.py")


def test_inputs_that_an_optimizer_alone_takes_are_idle() -> None:
    """A weight whose block did not run moves by its momentum; what nothing moves is none."""
    assert sketch_of(read_module(MOVED, "m")).idle == (1,)
