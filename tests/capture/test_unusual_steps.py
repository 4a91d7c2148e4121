"""A step that has made another number of tensors is looked at before it runs: it may compile."""

import pytest

from xlagraph.message import words
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.tensors import Role

pytestmark = pytest.mark.torch_xla

ALL = {f"blocks.{k}" for k in range(4)}


def blocks_of(tensors):
    """The blocks whose weights are among them."""
    owners = [one.owner for one in tensors if one.role is Role.PARAMETER]
    return {owner.rpartition(".")[0] for owner in owners} & ALL


def told_of_a_late_step(folder):
    """The context of the first graph that compiled late, and what is said of it."""
    run = explain_run(read_run(folder))
    late = next(graph for graph in run.graphs if graph.step > 12)
    (before,) = [graph for graph in run.graphs if graph.digest == late.nearest]
    explanation, (_, context) = run.explain(before, late)
    assert explanation.proved
    return context, "".join(words(cause.title) for cause in explanation.causes)


@pytest.mark.parametrize(
    ("later", "left_out"),
    [("123", {"blocks.0"}), ("013", {"blocks.2"}), ("01", {"blocks.2", "blocks.3"})],
)
def test_a_graph_of_a_late_step_has_names(run_program, programs, tmp_path, later, left_out):
    run_program(programs / "layers.py", "0123", later, XLAGRAPH="watch")
    context, titles = told_of_a_late_step(tmp_path / "xlagraph-run")
    assert ALL - blocks_of(context.outputs.values()) == left_out
    assert ALL - blocks_of(context.parameters.values()) == left_out
    assert any(f"{name}." in titles for name in left_out)
    assert not any(f"{name}." in titles for name in ALL - left_out)


def test_a_block_more_is_named_too(run_program, programs, tmp_path):
    run_program(programs / "layers.py", "013", "0123", XLAGRAPH="watch")
    context, titles = told_of_a_late_step(tmp_path / "xlagraph-run")
    assert blocks_of(context.outputs.values()) == ALL
    assert "blocks.2." in titles
    assert not any(f"{name}." in titles for name in ALL - {"blocks.2"})


def test_steps_that_take_turns_are_usual(run_program, tmp_path):
    """Each kind of step is looked at when it comes, and once known goes the short way."""
    turns = (
        "import torch, torch_xla\n"
        "x = torch.ones(4, device='xla')\n"
        "torch_xla.sync()\n"
        "for step in range(120):\n"
        "    y = x * 2 if step % 3 else (x + 1).sin().cos()\n"
        "    torch_xla.sync()\n"
    )
    run_program(turns, XLAGRAPH="watch")
    (file,) = (tmp_path / "xlagraph-run").glob("records-*")
    written = [line for line in file.read_text().splitlines() if '"record": "sync"' in line]
    assert len(written) < 60, "steps are written one by one"
