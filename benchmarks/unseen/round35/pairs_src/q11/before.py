"""RealNVP density estimator on jet substructure observables (8 features)."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

DIM = 8
HIDDEN = 24
BATCH = 32
N_COUPLING = 4


class Coupling(nn.Module):
    def __init__(self, dim, hidden, parity):
        super().__init__()
        mask = (torch.arange(dim) % 2 == parity).float()
        self.register_buffer("mask", mask)
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, 2 * dim)
        self.log_scale = nn.Parameter(torch.full((dim,), 0.3))

    def forward(self, x):
        frozen = x * self.mask
        h = torch.nn.functional.leaky_relu(self.fc1(frozen), 0.1)
        s, t = self.fc2(h).chunk(2, dim=1)
        s = torch.tanh(s) * self.log_scale
        free = 1.0 - self.mask
        y = frozen + free * (x * torch.exp(s) + t)
        return y, (free * s).sum(dim=1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(DIM))
        self.blocks = nn.ModuleList(
            Coupling(DIM, HIDDEN, i % 2) for i in range(N_COUPLING))

    def log_prob(self, x):
        z = x + self.shift
        log_det = x.new_zeros(x.shape[0])
        for block in self.blocks:
            z, ld = block(z)
            log_det = log_det + ld
        log_base = -0.5 * (z * z).sum(dim=1) - 0.5 * DIM * math.log(2 * math.pi)
        return log_base + log_det


def batches(n, device):
    g = torch.Generator().manual_seed(7)
    for _ in range(n):
        x = torch.randn(BATCH, DIM, generator=g)
        x[:, 1::2] = 0.5 * x[:, ::2] ** 2 + 0.3 * x[:, 1::2]
        w = torch.rand(BATCH, generator=g) + 0.5      # generator weights
        yield x.to(device), w.to(device)


def live(model, opt, extra):
    out = list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out + extra


def main(path=None, dump_at=2, steps=3):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Flow().to(device)
    opt = torch.optim.Adamax(model.parameters(), lr=2e-3)
    losses = []
    for step, (x, w) in enumerate(batches(steps, device)):
        log_p = model.log_prob(x)
        loss = -(w * log_p).sum() / w.sum()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if path and step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss])))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
