"""What is kept of each graph of a run."""

from __future__ import annotations

import json

from real_modules import graphs

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
