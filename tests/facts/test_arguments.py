"""The names of a jitted function's arguments, by metadata or by the parameters' own names."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.arguments import argument_name
from xlagraph.hlo import read_module


@pytest.mark.parametrize(
    ("module", "parameter", "name"),
    [
        ("jit_step", "net_measured.1 = f32[8]{0} parameter(0)", "net_measured"),
        ("jit_step", "Arg_0.7 = f32[8]{0} parameter(0)", ""),
        ("jit_step", "p.3 = f32[8]{0} parameter(0)", ""),
        ("SyncTensorsGraph", "net_measured.1 = f32[8]{0} parameter(0)", ""),
        (
            "jit_step",
            "Arg_0.7 = f32[8]{0} parameter(0), metadata={op_name=\"state['w']\"}",
            "state['w']",
        ),
    ],
    ids=["own name", "numbered", "one letter", "torch_xla", "metadata"],
)
def test_name_of_an_argument(module, parameter, name):
    text = f"HloModule {module}\n\nENTRY main {{\n  ROOT {parameter}\n}}\n"
    found = read_module(text)
    assert argument_name(found, found.entry_computation.root) == name
