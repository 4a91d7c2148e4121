"""SimSiam-style pretraining on hyperspectral pixels (VNIR bands + derivative bands)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BANDS, WIDTH, FEAT, PRED = 32, 24, 16, 8
BATCH = 12


class SpectralEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 6, kernel_size=5, stride=2, padding=2)
        self.fc1 = nn.Linear(6 * BANDS // 2, WIDTH, bias=False)
        self.bn1 = nn.BatchNorm1d(WIDTH)
        self.fc2 = nn.Linear(WIDTH, FEAT, bias=False)
        self.bn2 = nn.BatchNorm1d(FEAT, affine=False)

    def forward(self, x):
        deriv = F.pad(x[:, 1:] - x[:, :-1], (1, 0))
        h = torch.stack([x, deriv], dim=1)
        h = F.relu(self.conv(h)).flatten(1)
        h = F.relu(self.bn1(self.fc1(h)))
        return self.bn2(self.fc2(h))


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(FEAT, PRED, bias=False)
        self.bn1 = nn.BatchNorm1d(PRED)
        self.fc2 = nn.Linear(PRED, FEAT)

    def forward(self, z):
        return self.fc2(F.relu(self.bn1(self.fc1(z))))


def augment(x):
    gain = 1.0 + 0.1 * torch.randn(x.shape[0], 1, device=x.device)
    noise = 0.02 * torch.randn_like(x)
    return x * gain + noise


def neg_cosine(p, z):
    z = z.detach()
    p = F.normalize(p, dim=1)
    z = F.normalize(z, dim=1)
    return -(p * z).sum(dim=1).mean()


def collapse_metric(z):
    return F.normalize(z.detach(), dim=1).std(dim=0).mean()


def main():
    steps = int(os.environ.get("STEPS", 2))
    device = torch_xla.device()
    torch.manual_seed(0)
    xm.set_rng_state(21)
    enc, pred = SpectralEncoder().to(device), Predictor().to(device)
    modules = nn.ModuleList([enc, pred])
    opt = torch.optim.SGD(modules.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()

    for step in range(1, steps + 1):
        x = torch.rand(BATCH, BANDS, generator=gen).cumsum(dim=1).div(BANDS).to(device)
        v1, v2 = augment(x), augment(x)
        z1, z2 = enc(v1), enc(v2)
        p1, p2 = pred(z1), pred(z2)
        loss = 0.5 * neg_cosine(p1, z2) + 0.5 * neg_cosine(p2, z1)
        spread = collapse_metric(z1)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if step == steps and len(sys.argv) > 1:
            live = [loss, spread]
            live += [p.data for p in modules.parameters()]
            live += [p.grad for p in modules.parameters()]
            live += [b for b in modules.buffers()]
            live += [opt.state[p]["momentum_buffer"] for p in modules.parameters()]
            with open(sys.argv[1], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), spread.item())


if __name__ == "__main__":
    main()
