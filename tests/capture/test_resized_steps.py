"""Steps whose size changes late, each with gradients that no Python code has touched yet."""

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

SIZES = (4, 6, 8)
UPDATES = 10
PROGRAM = f"""
import torch, torch_xla
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(4, 8), torch.nn.Flatten(2)
).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch_xla.sync()
for size in {SIZES}:
    for _ in range({UPDATES}):
        for _ in range(2):
            loss = model(torch.ones(2, 3, size, size).to("xla")).square().mean()
            loss.backward()
            torch_xla.sync()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
"""


def test_hits_are_named_by_the_graph_that_ran(run_program, tmp_path):
    run_program(PROGRAM, XLAGRAPH="1")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    syncs = [sync for sync in process.syncs if sync.outcome in {"compile", "hit"}][-90:]
    # The optimizer has its momentum in the second update.
    kinds = [(k % 3, k < 3 if k % 3 == 2 else SIZES[k // (3 * UPDATES)]) for k in range(len(syncs))]
    ran = {
        kind: sync.graphs
        for kind, sync in zip(kinds, syncs, strict=True)
        if sync.outcome == "compile"
    }
    assert len(ran) == len(set(kinds)) == 8
    hits = [
        (kind, sync.graphs)
        for kind, sync in zip(kinds, syncs, strict=True)
        if sync.outcome == "hit" and sync.graphs
    ]
    assert [graphs for _, graphs in hits] == [ran[kind] for kind, _ in hits]
    assert {kind for kind, _ in hits} == set(ran) - {(2, True)}, (
        "all but the first update run again"
    )
