"""Shapes as HLO text writes them: of torch tensors, and those in a module's header."""

from __future__ import annotations

import re
from typing import Any

_DTYPES = {
    "bool": "pred",
    "uint8": "u8",
    "int8": "s8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_LAYOUT = re.compile(rb"entry_computation_layout=\{(.*)")
_SHAPE = re.compile(r"[a-z][a-z0-9]*\[[^\]]*\]")


def tensor_shape(tensor: Any) -> str:
    """The shape of a torch tensor, such as ``f32[64,32]``; reads host data only."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{_DTYPES.get(dtype, dtype)}[{','.join(map(str, tensor.shape))}]"


def sizes(shape: str) -> str:
    """The part in brackets: XLA may run another element type than torch names."""
    return shape[shape.index("[") :]


def entry_shapes(text: bytes) -> tuple[list[str], list[str]]:
    """Parameter and output shapes in a module's header; empty lists when it has none.

    Flat shapes only: torch_xla's modules take arrays and return a tuple of arrays.
    """
    header = text.split(b"\n", 1)[0]
    match = _LAYOUT.search(header)
    if match is None:
        return [], []
    inputs, arrow, outputs = match[1].decode(errors="replace").partition(")->")
    if not arrow:
        return [], []
    # What follows the layout's closing brace are other header fields.
    end = outputs.find(")}") if outputs.startswith("(") else outputs.find("]")
    return _SHAPE.findall(inputs), _SHAPE.findall(outputs[: end + 1])
