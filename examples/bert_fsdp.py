"""BERT for masked words under FSDP: unmodified torch_xla and transformers, and it recompiles.

Each layer is sharded on its own, its attention once more inside it, and the whole model around
them; gradients are reduced in buckets. The weights are random, so that nothing is downloaded.
This is the setting of pytorch/xla issue 4160, and the first run of the README.

Needs the extra ``demo`` (transformers). ``XLA_FLAGS=--xla_backend_optimization_level=0`` makes
the CPU's compiles faster. ``FIX=1`` mends it.
"""

from __future__ import annotations

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from transformers import BertConfig, BertForMaskedLM

WORDS, STEPS = 500, 8
SHARDED = {
    "reduce_scatter_bucket_size_mb": 0.4,
    "pin_layout_in_collective_ops": False,  # pinned buckets fail a check in torch_xla 2.9
}


def build() -> FSDP:
    """A small BERT, sharded layer by layer."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    bert = BertForMaskedLM(config)
    head = bert.cls.predictions
    head.decoder.weight = torch.nn.Parameter(head.decoder.weight.clone())  # FSDP ties no weights
    if os.environ.get("FIX"):  # the decoder keeps the one that is trained
        head.bias = torch.nn.Parameter(head.bias.detach().clone(), requires_grad=False)
    layers = bert.bert.encoder.layer
    for i, layer in enumerate(layers):
        layer.attention = FSDP(layer.attention.to("xla"), **SHARDED)
        layers[i] = FSDP(layer.to("xla"), **SHARDED)
    return FSDP(bert.to("xla"), **SHARDED)


def main() -> None:
    """Train on random words."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    torch_xla.sync()
    for step in range(STEPS):
        words = torch.randint(0, WORDS, (2, 16)).to("xla")
        loss = model(input_ids=words, labels=words.clone()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        print(f"step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
