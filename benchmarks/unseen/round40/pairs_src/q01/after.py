"""SimSiam pretraining on windows of a 3-axis accelerometer (activity recognition)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
DUMP_AT = 2


class WindowEncoder(nn.Module):
    def __init__(self, channels=3, width=8, dim=16):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 5, stride=2, padding=2)
        self.block = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)
        self.proj = nn.Linear(width, dim)

    def forward(self, x):
        h = F.gelu(self.stem(x))
        h = h + F.gelu(self.norm(self.block(h)))
        return self.proj(h.mean(dim=-1))


def regression_loss(p, z):
    p = F.normalize(p, dim=-1)
    z = F.normalize(z, dim=-1)
    return 2.0 - 2.0 * (p * z).sum(dim=-1)


def two_views(x, gain, noise):
    # gain jitter for one view, additive sensor noise and axis flip for the other
    return x * gain, (x + noise).flip(1)


def train_step(online, predictor, opt, x, gain, noise):
    opt.zero_grad(set_to_none=True)
    v1, v2 = two_views(x, gain, noise)
    o1, o2 = online(v1), online(v2)
    p1, p2 = predictor(o1), predictor(o2)
    loss = regression_loss(p1, o2.detach()) + regression_loss(p2, o1)
    loss = 0.5 * loss.mean()
    loss.backward()
    opt.step()
    with torch.no_grad():
        # collapse monitor: spread of the normalised embedding
        spread = F.normalize(o1, dim=-1).std(dim=0).mean()
    return loss, spread


def main(steps=3):
    dev = torch_xla.device()
    torch.manual_seed(0)
    online = WindowEncoder()
    predictor = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 16))
    data = [(torch.randn(6, 3, 32), 1 + 0.1 * torch.randn(6, 3, 1), 0.05 * torch.randn(6, 3, 32)) for _ in range(steps)]
    online, predictor = online.to(dev), predictor.to(dev)
    params = list(online.parameters()) + list(predictor.parameters())
    opt = torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4)
    for i, batch in enumerate(data):
        x, gain, noise = (t.to(dev) for t in batch)
        loss, spread = train_step(online, predictor, opt, x, gain, noise)
        if i == DUMP_AT:
            live = params + [opt.state[p]["momentum_buffer"] for p in params] + [loss, spread]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
