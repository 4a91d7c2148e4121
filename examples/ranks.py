"""Ranks that do not run the same: start it once for each rank, as a launcher would.

``RANK`` and ``WORLD_SIZE`` say which rank a process is; each is a world of its own to torch_xla,
which is enough to capture what it compiles. ``MODE`` says what is wrong:

* ``same``: nothing.
* ``log``: rank 0 reads the loss from step 3 on.
* ``shard``: the last rank's shard of the data ends earlier: its last batches are smaller.
* ``index``: each rank takes its samples out of one tensor, at places that stand in its graph.
* ``order``: the last rank reduces its gradients in another order from step 3 on.
* ``extra``: rank 0 reduces the loss as well, to print it.
* ``fewer``: the last rank has a step less.

One process cannot run collectives among eight. In the last three modes, with ``LOWERED`` set, the
step of a real job, its gradients reduced over all ranks, is therefore lowered and written to the
folder that ``LOWERED`` names, and the process goes on with the step without them.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch_xla

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "8"))
MODE = os.environ.get("MODE", "log")
LOWERED = os.environ.get("LOWERED", "")
STEPS, ODD_FROM, BATCH = 6, 3, 8
LAST = WORLD - 1


def build() -> torch.nn.Module:
    """A small network, with the same weights everywhere."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
    return net.to(torch_xla.device())


def batch_of(step: int) -> int:
    """How many samples this rank has in a step."""
    return BATCH - 3 if MODE == "shard" and RANK == LAST and step >= ODD_FROM else BATCH


def reduced(value: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks."""
    groups = [list(range(WORLD))]
    return torch_xla._XLAC._xla_all_reduce("sum", value, 1.0 / WORLD, groups, False)


def lower(step: int, model: torch.nn.Module, loss: torch.Tensor) -> None:
    """Writes the module of the step as a job of all ranks would run it."""
    turn = -1 if MODE == "order" and RANK == LAST and step >= ODD_FROM else 1
    named = list(model.named_parameters())[::turn]
    means = {name: reduced(parameter.grad) for name, parameter in named}
    outputs = [p.detach() - 0.1 * means[name] for name, p in model.named_parameters()]
    if MODE == "extra" and RANK == 0 and step >= ODD_FROM:
        outputs.append(reduced(loss.detach()))
    Path(LOWERED, f"{RANK}-{step}.hlo").write_text(torch_xla._XLAC._get_xla_tensors_hlo(outputs))
    proto = torch_xla._XLAC._get_xla_tensors_hlo_proto(outputs)
    Path(LOWERED, f"{RANK}-{step}.pb").write_bytes(proto)


def main() -> None:
    """Trains for a few steps."""
    model = build()
    data = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(RANK))
    everything = torch.randn(WORLD * BATCH, 16).to(torch_xla.device())
    torch_xla.sync()
    for step in range(STEPS - (MODE == "fewer" and RANK == LAST)):
        batch = data[: batch_of(step)].to(torch_xla.device())
        if MODE == "index":
            batch = everything[RANK * BATCH : (RANK + 1) * BATCH]
        loss = model(batch).square().mean()
        loss.backward()
        if LOWERED:
            lower(step, model, loss)
        if MODE == "log" and RANK == 0 and step >= ODD_FROM:
            print(f"step {step}: {loss.item():.3f}")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        torch_xla.sync()


if __name__ == "__main__":
    main()
