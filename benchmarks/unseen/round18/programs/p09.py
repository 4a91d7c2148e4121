"""Small chorale model: predicts the next note of a soprano line.

Stage one trains the new output head on a frozen body, stage two everything with a
lower rate.  After each stage a few lines are sampled note by note.
"""
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NOTES, LENGTH, DIM, HEADS = 28, 16, 24, 2
Stage = namedtuple("Stage", "name steps lr freeze_body")
STAGES = [Stage("head", 24, 3e-2, True), Stage("full", 30, 5e-3, False)]
LOG_EVERY = 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, bias):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        w = (q @ k.transpose(-1, -2) / (DIM // HEADS) ** 0.5 + bias).softmax(-1)
        x = x + self.proj((w @ v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class Chorale(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = nn.Embedding(NOTES, DIM)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, DIM))
        self.block = Block()
        self.head = nn.Linear(DIM, NOTES)
        self.register_buffer("bias", torch.full((LENGTH, LENGTH), -1e9).triu(1))

    def forward(self, x):
        return self.head(self.block(self.notes(x) + self.places, self.bias))


class Lines:
    """Random walks around a key, good enough to exercise the code."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        key = torch.randint(4, NOTES - 12, (n, 1), generator=self.g)
        move = torch.randint(-1, 2, (n, LENGTH + 1), generator=self.g)
        line = key + (move.cumsum(1) % 8)
        return line[:, :-1].contiguous(), line[:, 1:].contiguous()


def run_stage(net, stage, data, device):
    for name, p in net.named_parameters():
        p.requires_grad_(not stage.freeze_body or name.startswith("head"))
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad],
                          lr=stage.lr, momentum=0.95)
    net.train()
    window = []
    for step in range(stage.steps):
        x, y = (t.to(device) for t in data.batch(16))
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        window.append(loss.detach())
        if (step + 1) % LOG_EVERY == 0:
            mean = sum(v.item() for v in window) / len(window)
            print(f"[{stage.name}] step {step + 1:2d}  loss {mean:.3f}")
            window.clear()


@torch.no_grad()
def validate(net, batches):
    net.eval()
    out = []
    for x, y in batches:
        logits = net(x)
        out.append(torch.stack([F.cross_entropy(logits.flatten(0, 1), y.flatten()),
                                (logits.argmax(-1) == y).float().mean()]))
        xm.mark_step()
    nll, acc = torch.stack(out).mean(0).tolist()
    return nll, acc


@torch.no_grad()
def improvise(net, first, device, temperature=0.8):
    """Samples a line note by note; the window keeps its full length throughout."""
    net.eval()
    line = torch.zeros(len(first), LENGTH, dtype=torch.long)
    line[:, 0] = torch.tensor(first)
    line = line.to(device)
    place = torch.zeros(1, dtype=torch.long).to(device)
    xm.mark_step()
    for _ in range(LENGTH - 1):
        logits = net(line).index_select(1, place).squeeze(1) / temperature
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        place = place + 1
        line = line.index_copy(1, place, (logits + noise).argmax(-1, keepdim=True))
        xm.mark_step()
    return line.cpu().tolist()


def main():
    torch.manual_seed(12)
    device = torch_xla.device()
    net = Chorale().to(device)
    data = Lines(seed=1)
    held = [tuple(t.to(device) for t in Lines(seed=50 + i).batch(32)) for i in range(3)]
    for stage in STAGES:
        run_stage(net, stage, data, device)
        nll, acc = validate(net, held)
        print(f"[{stage.name}] validation nll {nll:.3f}  accuracy {acc:.3f}")
        for line in improvise(net, [6, 12], device):
            print("   ", " ".join(f"{n:2d}" for n in line))


if __name__ == "__main__":
    main()
