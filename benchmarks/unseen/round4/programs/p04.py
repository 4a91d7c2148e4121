"""A small DDPM on 2-d points: training with random timesteps, then ancestral sampling every few epochs."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

T = 12


class Schedule(nn.Module):
    def __init__(self, steps):
        super().__init__()
        beta = torch.linspace(1e-3, 0.25, steps)
        alpha = 1.0 - beta
        abar = torch.cumprod(alpha, 0)
        self.register_buffer("beta", beta)
        self.register_buffer("alpha", alpha)
        self.register_buffer("abar", abar)

    def add_noise(self, x0, t, eps):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.inp = nn.Linear(2, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)
        for lin in self.mid:
            h = h + torch.nn.functional.silu(lin(h))
        return self.out(h)


def two_moons(n, g):
    a = torch.rand(n, generator=g) * 3.1416
    side = torch.randint(2, (n,), generator=g).float()
    x = torch.stack([torch.cos(a) * (1 - 2 * side) + side, torch.sin(a) * (1 - 2 * side) + 0.5 * side], 1)
    return x + 0.05 * torch.randn(n, 2, generator=g)


def train_epoch(model, sched, opt, data, dev, batch=64):
    model.train()
    for lo in range(0, len(data), batch):
        x0 = data[lo:lo + batch].to(dev)
        t = torch.randint(T, (batch,)).to(dev)
        eps = torch.randn(batch, 2).to(dev)
        loss = (model(sched.add_noise(x0, t, eps), t) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        torch_xla.sync()
    return loss


@torch.no_grad()
def sample(model, sched, dev, n=32):
    model.eval()
    x = torch.randn(n, 2).to(dev)
    for i in reversed(range(T)):
        t = torch.full((n,), i, dtype=torch.long).to(dev)
        noise = (torch.randn(n, 2) * float(i > 0)).to(dev)
        eps = model(x, t)
        beta, alpha, abar = sched.beta[i], sched.alpha[i], sched.abar[i]
        x = (x - beta / (1 - abar).sqrt() * eps) / alpha.sqrt() + beta.sqrt() * noise
        torch_xla.sync()
    return x.cpu()


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(5)
    dev = torch_xla.device()
    sched = Schedule(T).to(dev)
    model = Denoiser().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = two_moons(256, g)
    torch_xla.sync()
    for epoch in range(4):
        loss = train_epoch(model, sched, opt, data, dev)
        if epoch % 2 == 1:
            pts = sample(model, sched, dev)
            print(f"epoch {epoch} loss {loss.item():.4f} spread {pts.std().item():.3f}")


if __name__ == "__main__":
    main()
