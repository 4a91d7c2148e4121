"""Per-residue secondary structure from sequence: gated dilated convolutions, AutoClip, cosine schedule."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

AA = "-ACDEFGHIKLMNPQRSTVWY"
STATES = 3  # helix, strand, coil
IGNORE = -100


@dataclass
class Config:
    dim: int = 32
    layers: int = 2
    batch: int = 8
    steps: int = 15
    lr: float = 0.2
    warmup: int = 4
    clip_percentile: float = 0.4
    max_len: int = 128
    seed: int = 21


class Proteins(Dataset):
    """Segments of one state each; residues are drawn from a state dependent propensity table."""

    def __init__(self, n, cfg):
        rng = np.random.default_rng(cfg.seed)
        prop = rng.dirichlet(np.full(len(AA) - 1, 0.6), size=STATES)
        self.items = []
        for _ in range(n):
            length = int(np.clip(rng.gamma(6.0, 9.0), 20, cfg.max_len))
            ss = []
            while len(ss) < length:
                ss += [int(rng.integers(STATES))] * int(rng.integers(4, 12))
            ss = np.array(ss[:length])
            seq = np.array([1 + rng.choice(len(AA) - 1, p=prop[s]) for s in ss])
            self.items.append((torch.from_numpy(seq), torch.from_numpy(ss)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collate:
    def __init__(self, max_len):
        self.max_len = max_len

    def __call__(self, items):
        longest = max(len(seq) for seq, _ in items)
        width = min(self.max_len, longest)
        tokens = torch.zeros(len(items), width, dtype=torch.long)
        labels = torch.full((len(items), width), IGNORE, dtype=torch.long)
        for row, (seq, ss) in enumerate(items):
            n = min(width, len(seq))
            tokens[row, :n] = seq[:n]
            labels[row, :n] = ss[:n]
        return tokens, labels


class ResidualConv(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.conv = nn.Conv1d(dim, 2 * dim, 5, padding=2 * dilation, dilation=dilation)

    def forward(self, x, keep):
        h = F.normalize(x, dim=-1) * math.sqrt(x.shape[-1]) * self.scale * keep
        a, b = self.conv(h.transpose(1, 2)).transpose(1, 2).chunk(2, dim=-1)
        return x + a * torch.sigmoid(b)


class SSNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(len(AA), cfg.dim, padding_idx=0)
        self.blocks = nn.ModuleList([ResidualConv(cfg.dim, 2 ** i) for i in range(cfg.layers)])
        self.out = nn.Linear(cfg.dim, STATES)

    def forward(self, tokens):
        keep = (tokens != 0).unsqueeze(-1).to(self.embed.weight.dtype)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, keep)
        return self.out(x)


class AutoClip:
    """Clip to a percentile of the gradient norms seen so far (Seetharaman et al., 2020)."""

    def __init__(self, params, percentile):
        self.params = [p for p in params if p.requires_grad]
        self.percentile = percentile
        self.norms = None

    @torch.no_grad()
    def __call__(self):
        norm = torch.stack([p.grad.norm() for p in self.params if p.grad is not None]).norm().view(1)
        self.norms = norm if self.norms is None else torch.cat([self.norms, norm])
        ranked = self.norms.sort().values
        limit = ranked[int(self.percentile * (ranked.shape[0] - 1))]
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        for p in self.params:
            if p.grad is not None:
                p.grad.mul_(scale)
        return norm


def lr_at(step, cfg):
    if step < cfg.warmup:
        return (step + 1) / (cfg.warmup + 1)
    return 0.55 + 0.4 * math.cos(math.pi * (step - cfg.warmup) / (cfg.steps - cfg.warmup))


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    loader = DataLoader(Proteins(96, cfg), batch_size=cfg.batch, shuffle=True, drop_last=True,
                        collate_fn=Collate(cfg.max_len), generator=torch.Generator().manual_seed(cfg.seed))
    model = SSNet(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s, cfg))
    clip = AutoClip(model.parameters(), cfg.clip_percentile)

    step, epoch = 0, 0
    while step < cfg.steps:
        for tokens, labels in loader:
            if step == cfg.steps:
                break
            tokens, labels = tokens.to(device), labels.to(device)
            logits = model(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
            hits = ((logits.argmax(dim=-1) == labels) & (labels != IGNORE)).sum() / (labels != IGNORE).sum()
            opt.zero_grad()
            loss.backward()
            norm = clip()
            opt.step()
            sched.step()
            torch_xla.sync()
            step += 1
            if step % 5 == 0:
                xm.master_print(f"epoch {epoch} step {step:3d} loss {loss.item():.4f} Q3 {hits.item():.3f} "
                                f"grad norm {norm.item():.3f}")
        epoch += 1


if __name__ == "__main__":
    main()
