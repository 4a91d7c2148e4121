"""Constants whose values XLA's text leaves out: compared where the capture keeps them."""

import os
from pathlib import Path

import pytest
import torch_programs

from xlagraph.explain import explain_modules
from xlagraph.hlo.reader import read_module
from xlagraph.run.digest import digest_graph
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

PROGRAM = """
import torch, torch_xla
model = torch.nn.Linear(16, 4).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch_xla.sync()
for start in (0, 16, 32, 0):
    optimizer.zero_grad()
    positions = torch.arange(start, start + 16, device="xla")  # line 8
    model(positions.float()).sum().backward()
    optimizer.step()
    torch_xla.sync()
"""


def explained(folder: Path, level: str):
    (folder / "train.py").write_text(PROGRAM)
    env = {name: value for name, value in os.environ.items() if not name.startswith("XLAGRAPH")}
    env |= {
        "XLAGRAPH": level,
        "XLAGRAPH_DIR": str(folder / "run"),
        "XLAGRAPH_SUMMARY": "0",
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": torch_programs.FAST,
    }
    assert not torch_programs.run(folder / "train.py", env=env, cwd=folder).returncode
    return read_run(folder / "run")


@pytest.mark.torch_xla
def test_a_range_with_other_bounds_is_another_graph(tmp_path):
    run = explain_run(explained(tmp_path, "1"))
    assert len(run.graphs) == 3
    (cause,) = [group for group in run.groups if not group.expected]
    assert cause.kind.id == "constant-value"
    assert cause.proved
    assert cause.place.line is not None
    assert cause.place.line.line == 8
    assert str(run.verdict.what).endswith("a list of numbers baked into the graph changed.")


@pytest.mark.torch_xla
def test_without_the_values_they_are_not_called_the_same(tmp_path):
    captured = explained(tmp_path, "watch")
    run = explain_run(captured)
    assert len(captured.digests()) == 1
    (cause,) = [group for group in run.groups if not group.expected]
    assert (cause.kind.id, cause.proved, cause.compiles) == ("unprinted-values", False, 2)
    assert "leaves out the values of 1 large constant" in str(cause.title)


def test_a_protobuf_that_is_cut_off_leaves_the_text_to_name_the_graph():
    text = b"HloModule m\n\nENTRY e {\n  ROOT c = s32[16]{0} constant({...})\n}\n"
    assert digest_graph(text, b"\x1a\xff\x01\x12") == digest_graph(text)


def test_modules_without_values_are_the_same_as_far_as_the_texts_tell():
    text = "HloModule m\n\nENTRY e {\n  ROOT c = s32[16]{0} constant({...})\n}\n"
    explanation = explain_modules(read_module(text, "a"), read_module(text, "b"))
    assert str(explanation.verdict.what).startswith("Same computation as far as the texts tell: ")
