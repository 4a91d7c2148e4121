"""A training loop that prints its losses bit by bit: ``python train.py [eager|amp|compiled]``.

With ``XLAGRAPH_STREAMS=3-5`` steps 3 to 5 are recorded; the losses are to be the same.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import torch
from torch import nn


def main(kind: str) -> None:
    """Ten steps of a small transformer with dropout on two streams."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cuda.enable_flash_sdp(enabled=False)
    torch.backends.cuda.enable_mem_efficient_sdp(enabled=False)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
    net = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(128, 16)).cuda()
    run = torch.compile(net) if kind == "compiled" else net
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == "amp")
    side, current = torch.cuda.Stream(), torch.cuda.current_stream()
    losses = []
    for _ in range(10):
        with torch.cuda.stream(side):
            batch = torch.randn(8, 32, 128, device="cuda")
        current.wait_stream(side)
        batch.record_stream(current)
        amp = torch.autocast("cuda", dtype=torch.float16) if kind == "amp" else nullcontext()
        with amp:
            loss = run(batch).float().pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item().hex())
    compiles = 0
    if kind == "compiled":
        from torch._dynamo.utils import counters

        compiles = counters["stats"]["unique_graphs"]
    print(json.dumps({"kind": kind, "losses": losses, "compiles": compiles}))


main(sys.argv[1] if len(sys.argv) > 1 else "eager")
