"""Conditional RealNVP over calorimeter cells given the particle's energy."""
import sys

import torch
import torch.nn as nn
import torch_xla


class Subnet(nn.Module):
    def __init__(self, n_in, n_out, hidden):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.fc2 = nn.Linear(hidden, 2 * n_out)
        nn.init.normal_(self.fc2.weight, std=0.02)

    def forward(self, x):
        return self.fc2(nn.functional.leaky_relu(self.fc1(x), 0.1))


class Coupling(nn.Module):
    def __init__(self, dim, cond, hidden, flip, clamp=1.9):
        super().__init__()
        self.keep = dim // 2
        self.flip = flip
        self.clamp = clamp
        self.net = Subnet(self.keep + cond, dim - self.keep, hidden)

    def forward(self, x, c):
        if self.flip:
            x = torch.flip(x, (-1,))
        x1, x2 = x[:, :self.keep], x[:, self.keep:]
        s, t = self.net(torch.cat([x1, c], -1)).chunk(2, -1)
        s = self.clamp * torch.tanh(s / self.clamp)
        y2 = x2 * torch.exp(s) + t
        return torch.cat([x1, y2], -1), s.mean(-1)


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x, c):
        y = (x - self.shift) * torch.exp(self.log_scale)
        return y, self.log_scale.sum().expand(x.shape[0])


class Flow(nn.Module):
    def __init__(self, dim=10, cond=2, hidden=16, depth=3):
        super().__init__()
        steps = []
        for i in range(depth):
            steps += [ActNorm(dim), Coupling(dim, cond, hidden, i % 2 == 1)]
        self.steps = nn.ModuleList(steps)

    def forward(self, x, c):
        total = x.new_zeros(x.shape[0])
        for step in self.steps:
            x, log_det = step(x, c)
            total = total + log_det
        return x, total


def logit(x, alpha=1e-4):
    x = alpha + (1 - 2 * alpha) * x
    return torch.log(x) - torch.log1p(-x)


def embed(e):
    u = torch.log10(e)
    return torch.stack([u, u * u], -1)


def nll(model, cells, energy):
    z, log_det = model(logit(cells), embed(energy))
    prior = -0.5 * (z * z).sum(-1) - 0.9189385 * z.shape[-1]
    return -(prior + log_det).mean()


def train_step(model, opt, cells, energy):
    opt.zero_grad(set_to_none=True)
    loss = nll(model, cells, energy)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0, foreach=False)
    opt.step()
    return loss.detach(), norm


def pending(model, opt, extra):
    params = list(model.parameters())
    out = params + [p.grad for p in params]
    for key in ("exp_avg", "exp_avg_sq"):
        out += [opt.state[p][key] for p in params]
    return out + list(extra)


def main():
    torch.manual_seed(2)
    dev = torch_xla.device()
    model = Flow().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98),
                            weight_decay=1e-3, foreach=False)
    for step in range(4):
        g = torch.Generator().manual_seed(100 + step)
        cells = torch.rand(16, 10, generator=g).to(dev)
        energy = (1 + 99 * torch.rand(16, generator=g)).to(dev)
        torch_xla.sync()
        out = train_step(model, opt, cells, energy)
        if step == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(model, opt, out))
            with open(sys.argv[1], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, [round(x.item(), 6) for x in out])


if __name__ == "__main__":
    main()
