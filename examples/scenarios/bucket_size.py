"""The reduce-scatter buckets of FSDP hold more in some steps: other tensors share a bucket.

Kind: bucket-composition
Line: none
"""

import torch
from _tiny import batch, build, update
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel

model, _ = build()
sharded = XlaFullyShardedDataParallel(
    model,
    reduce_scatter_bucket_size_mb=1,
    # Coalesced reduce-scatter with pinned layouts fails a check in torch_xla 2.9.
    pin_layout_in_collective_ops=False,
)
optimizer = torch.optim.SGD(sharded.parameters(), lr=0.05)
for step in range(8):
    sharded.reduce_scatter_op.bucket_size_bytes = 2600 if step % 4 == 3 else 520
    update(sharded(batch()).pow(2).mean(), optimizer)
