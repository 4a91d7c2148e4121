"""Masked-residue pretraining of a small protein encoder with a switch (mixture-of-experts) layer.

Token mixing is a windowed convolution, the channel mixing after it is routed:
every residue goes to the one expert its gate prefers.
"""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

AMINO = "ACDEFGHIKLMNPQRSTVWY"
MASK_ID = len(AMINO)
VOCAB = len(AMINO) + 1


@dataclass
class EncoderConfig:
    dim: int = 32
    window: int = 5
    experts: int = 3
    expert_mult: int = 2
    length: int = 24
    aux_weight: float = 0.01


class FeedForward(nn.Sequential):
    def __init__(self, dim, mult):
        super().__init__(nn.Linear(dim, mult * dim), nn.ReLU(), nn.Linear(mult * dim, dim))


class SwitchFeedForward(nn.Module):
    """Top-1 routing (Fedus et al.), outputs scaled with the gate probability."""

    def __init__(self, cfg):
        super().__init__()
        self.gate = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.experts = nn.ModuleList(
            FeedForward(cfg.dim, cfg.expert_mult) for _ in range(cfg.experts)
        )
        self.balance = None

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = torch.softmax(self.gate(flat), dim=-1)
        weight, choice = probs.max(dim=-1)

        # load balancing term: fraction routed x mean probability
        load = F.one_hot(choice, len(self.experts)).float().mean(0)
        self.balance = len(self.experts) * (load * probs.mean(0)).sum()

        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows = (choice == e).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(flat[rows]))
        return (out * weight.unsqueeze(-1)).view_as(x)


class ProteinEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, cfg.dim)
        self.pos = nn.Parameter(torch.zeros(cfg.length, cfg.dim))
        self.mix = nn.Conv1d(cfg.dim, cfg.dim, cfg.window, padding=cfg.window // 2)
        self.norm = nn.LayerNorm(cfg.dim)
        self.routed = SwitchFeedForward(cfg)
        self.head = nn.Linear(cfg.dim, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos
        x = x + F.relu(self.mix(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x + self.routed(self.norm(x)))


def synthetic_families(n, length, gen):
    """Sequences drawn around a handful of family consensus strings."""
    consensus = torch.randint(0, len(AMINO), (6, length), generator=gen)
    seqs = consensus[torch.randint(0, 6, (n,), generator=gen)]
    noise = torch.rand(seqs.shape, generator=gen) < 0.2
    return torch.where(noise, torch.randint(0, len(AMINO), seqs.shape, generator=gen), seqs)


def mask_tokens(seqs, gen, p=0.15):
    picked = torch.rand(seqs.shape, generator=gen) < p
    return seqs.masked_fill(picked, MASK_ID), picked.float()


def masked_nll(logits, seqs, picked):
    nll = F.cross_entropy(logits.flatten(0, 1), seqs.flatten(), reduction="none")
    return (nll * picked.flatten()).sum() / picked.sum()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=16)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.3)
    args = ap.parse_args()

    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    cfg = EncoderConfig()
    device = torch_xla.device()
    model = ProteinEncoder(cfg).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=args.lr)
    data = synthetic_families(256, cfg.length, gen)

    for step in range(args.steps):
        seqs = data[torch.randint(0, len(data), (args.batch,), generator=gen)]
        inputs, picked = mask_tokens(seqs, gen)
        inputs, seqs, picked = inputs.to(device), seqs.to(device), picked.to(device)

        nll = masked_nll(model(inputs), seqs, picked)
        loss = nll + cfg.aux_weight * model.routed.balance
        optim.zero_grad()
        loss.backward()
        optim.step()
        torch_xla.sync()
        if step % 4 == 3:
            print(f"step {step + 1:3d}  nll {nll.item():.3f}")


if __name__ == "__main__":
    main()
