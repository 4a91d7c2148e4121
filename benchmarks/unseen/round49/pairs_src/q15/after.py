"""RealNVP density estimation of detector read-outs (6 channels), gradient clipping, AdamW."""
import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()


class Coupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        self.flip = flip
        self.half = dim // 2
        self.inp = nn.Linear(self.half, hidden)
        self.out = nn.Linear(hidden, 2 * self.half)

    def forward(self, x):
        xa, xb = x[:, : self.half], x[:, self.half :]
        if self.flip:
            xa, xb = xb, xa
        s, t = self.out(F.gelu(self.inp(xa), approximate="tanh")).chunk(2, dim=1)
        log_s = s.clamp(-2.0, 2.0)
        yb = xb * torch.exp(log_s) + t
        y = torch.cat([yb, xa] if self.flip else [xa, yb], dim=1)
        return y, log_s.sum(dim=1)


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x * self.log_scale.exp() + self.shift
        return y, self.log_scale.sum().expand(x.shape[0])


class Flow(nn.Module):
    def __init__(self, dim=6, hidden=16):
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(
            [ActNorm(dim), Coupling(dim, hidden, False), ActNorm(dim), Coupling(dim, hidden, True)]
        )

    def log_prob(self, x):
        logdet = 0.0
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        prior = -0.5 * (x.pow(2).sum(dim=1) + self.dim * math.log(2 * math.pi))
        return prior + logdet


def train_step(flow, opt, x):
    opt.zero_grad(set_to_none=True)
    noisy = x + 0.01 * torch.randn_like(x)
    nll = -flow.log_prob(noisy).mean()
    nll.backward()
    norm = torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    opt.step()
    return nll.detach(), norm


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path, steps=2):
    torch.manual_seed(8)
    flow = Flow().to(dev)
    opt = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-4)
    data = [torch.randn(16, 6) for _ in range(steps)]
    torch_xla.sync()
    for i, x in enumerate(data):
        x = x.to(dev)
        nll, norm = train_step(flow, opt, x)
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(flow, opt, nll, norm)))
        torch_xla.sync()
        print(i, nll.item(), norm.item())


if __name__ == "__main__":
    main(sys.argv[1])
