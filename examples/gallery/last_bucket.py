"""torch_xla's FSDP: a parameter without a gradient keeps the last bucket from being reduced.

Kind: bucket-carry
Needs: torch_xla
Page: last-bucket
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP


class Net(nn.Module):
    """Two layers and a bias that the forward pass does not use, as in the head of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(shard(nn.Linear(32, 32)) for _ in range(2))
        self.head = nn.Linear(32, 8)
        self.unused = nn.Parameter(torch.zeros(8), requires_grad=not MENDED)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def shard(module: nn.Module) -> FSDP:
    """Wrap a module, with a bucketed reduce-scatter."""
    return FSDP(
        module.to("xla"), reduce_scatter_bucket_size_mb=0.003, pin_layout_in_collective_ops=False
    )


torch.manual_seed(0)
model = shard(Net())
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
torch_xla.sync()
for _ in range(10):
    model(torch.ones(8, 32).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
