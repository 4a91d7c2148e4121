"""Lazy IR text: outputs, operations with several results, source places, exact errors."""

from __future__ import annotations

import pytest

from xlagraph.errors import InputError, Source
from xlagraph.graph import SourceFrame
from xlagraph.hlo.lazy_ir import read_lazy_ir
from xlagraph.hlo.verify import verify

TEXT = """IR {
  %0 = f32[4]{0} xla::device_data(), xla_shape=f32[4]{0}, location=forward@model.py:30
  %1 = (f32[4]{0}, f32[]) aten::two(%0), num_outputs=2, xla_shape=(f32[4]{0}, f32[])
  %2 = f32[4]{0} aten::mul(%1.0, %1.1), xla_shape=f32[4]{0}, ROOT=1
  %3 = f32[4]{0} aten::add(%1.0, %0), size=(4, 1), ROOT=0
}
"""


def test_outputs_are_in_order_and_parts_are_made_once():
    module = read_lazy_ir(Source("a.ir", TEXT, 10))
    verify(module)
    assert list(module.names) == ["0", "1", "1.0", "1.1", "2", "3", "outputs"]
    assert module.operands == [(), (0,), (1,), (1,), (2, 3), (2, 0), (5, 4)]
    assert module.shapes[2:4] == ["f32[4]{0}", "f32[]"]
    assert [module.line_of(i) for i in range(7)] == [11, 12, 13, 13, 13, 14, 15]
    assert module.source(0) == SourceFrame("model.py", 30)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("IR\n", (1, 1), "expected 'IR {'"),
        ("IR {\n}", (2, 1), "expected an operation; the graph is empty"),
        ("IR {\n  %0 = f32[] a()\n", (3, 1), "expected '}' at the end of the graph"),
        ("IR {\n  x\n}", (2, 1), "expected an operation: %number = shape operation(operands)"),
        ("IR {\n  %0 = f32 a()\n}", (2, 8), "expected a shape"),
        ("IR {\n  %0 = f32[] a\n}", (2, 13), "expected operation(operands)"),
        ("IR {\n  %0 = f32[] a(%1)\n}", (2, 16), "unknown operand %1; it is not defined above"),
        (
            "IR {\n  %0 = f32[] a()\n  %0 = f32[] a()\n}",
            (3, 4),
            "another operation is called %0",
        ),
    ],
)
def test_errors_tell_the_place(text, place, message):
    with pytest.raises(InputError) as caught:
        read_lazy_ir(Source("a.ir", text))
    assert caught.value.message == message
    assert (caught.value.location.line, caught.value.location.column) == place
