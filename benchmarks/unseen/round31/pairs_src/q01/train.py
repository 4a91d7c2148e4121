"""Person identification from wrist accelerometer windows, cross-batch memory + supervised contrastive loss."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_PERSONS = 40
WIN = 64
BATCH = 20
MEMORY = 96
EMB = 32
STEPS = 14


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.norm = nn.GroupNorm(4, cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride) if (stride > 1 or cin != cout) else nn.Identity()

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)) + self.skip(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(Block(3, 16, 2), Block(16, 32, 2), Block(32, 32, 1))
        self.proj = nn.Linear(32, EMB)

    def forward(self, x):
        h = self.net(x).mean(-1)
        return F.normalize(self.proj(h), dim=-1)


class CrossBatchMemory:
    def __init__(self, size, dim, device):
        self.size = size
        self.feats = torch.zeros(size, dim, device=device)
        self.labels = torch.full((size,), -1, dtype=torch.long, device=device)
        self.ptr = 0
        self.full = False

    def get(self):
        if self.full:
            return self.feats, self.labels
        return self.feats[: self.ptr], self.labels[: self.ptr]

    @torch.no_grad()
    def enqueue(self, feats, labels):
        n = labels.shape[0]
        if self.ptr + n > self.size:
            self.feats[-n:] = feats
            self.labels[-n:] = labels
            self.ptr = 0
            self.full = True
        else:
            self.feats[self.ptr:self.ptr + n] = feats
            self.labels[self.ptr:self.ptr + n] = labels
            self.ptr += n


def supcon(anchor, labels, keys, key_labels, tau=0.1, drop_self=False):
    sim = anchor @ keys.t() / tau
    pos = labels[:, None] == key_labels[None, :]
    if drop_self:
        eye = torch.eye(len(labels), dtype=torch.bool, device=anchor.device)
        pos = pos & ~eye
        sim = sim.masked_fill(eye, -1e4)
    logp = sim - torch.logsumexp(sim, dim=1, keepdim=True)
    n_pos = pos.sum(1)
    loss = -(logp * pos).sum(1) / n_pos.clamp(min=1)
    has = (n_pos > 0).float()
    return (loss * has).sum() / has.sum().clamp(min=1.0)


def make_batches(seed):
    rng = np.random.default_rng(seed)
    freq = rng.uniform(1.0, 3.0, size=(N_PERSONS, 3))
    amp = rng.uniform(0.5, 1.5, size=(N_PERSONS, 3))
    t = np.linspace(0, 2 * math.pi, WIN)
    while True:
        who = np.repeat(rng.choice(N_PERSONS, BATCH // 2, replace=False), 2)
        phase = rng.uniform(0, 2 * math.pi, size=(BATCH, 3, 1))
        x = amp[who][:, :, None] * np.sin(freq[who][:, :, None] * t + phase)
        x += 0.1 * rng.normal(size=x.shape)
        yield torch.from_numpy(x.astype(np.float32)), torch.from_numpy(who.astype(np.int64))


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Encoder().to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05},
                             {"params": rest, "weight_decay": 0.0}], lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS * 2)
    memory = CrossBatchMemory(MEMORY, EMB, device)
    torch_xla.sync()

    for step, (x, y) in enumerate(make_batches(1)):
        if step == STEPS:
            break
        x, y = x.to(device), y.to(device)
        z = model(x)
        loss = supcon(z, y, z, y, drop_self=True)
        memory.enqueue(z.detach(), y)
        keys, key_labels = memory.get()
        loss = loss + 0.5 * supcon(z, y, keys, key_labels)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 5 == 4:
            xm.master_print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
