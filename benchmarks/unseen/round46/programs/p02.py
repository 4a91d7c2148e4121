"""Conditional GAN for synthetic tabular records (insurance claims)."""
import copy
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("tabgan")

CFG = dict(
    iters=48, batch=32, z_dim=12, n_cont=8, n_cls=5, width=48,
    lr_g=1e-3, lr_d=2e-3, r1_gamma=4.0, r1_every=8,
    ema_decay=0.995, sample_every=16, seed=3,
)


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.fc2(F.silu(self.fc1(self.norm(x))))


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.emb = nn.Embedding(cfg["n_cls"], w)
        self.inp = nn.Linear(cfg["z_dim"], w)
        self.body = nn.Sequential(ResBlock(w), ResBlock(w))
        self.out = nn.Linear(w, cfg["n_cont"])

    def forward(self, z, y):
        return self.out(self.body(self.inp(z) + self.emb(y)))


class Critic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.inp = nn.Linear(cfg["n_cont"], w)
        self.body = nn.Sequential(ResBlock(w), ResBlock(w))
        self.head = nn.Linear(w, 1)
        self.proj = nn.Embedding(cfg["n_cls"], w)

    def forward(self, x, y):
        h = self.body(self.inp(x))
        return self.head(h).squeeze(-1) + (h * self.proj(y)).sum(-1)


def r1_penalty(critic, x, y):
    x = x.detach().requires_grad_(True)
    score = critic(x, y).sum()
    (grad,) = torch.autograd.grad(score, x, create_graph=True)
    return grad.pow(2).sum(dim=1).mean()


def record_stream(cfg, gen):
    centers = torch.randn(cfg["n_cls"], cfg["n_cont"], generator=gen) * 1.5
    scales = torch.rand(cfg["n_cls"], cfg["n_cont"], generator=gen) * 0.5 + 0.1
    while True:
        y = torch.randint(cfg["n_cls"], (cfg["batch"],), generator=gen)
        noise = torch.randn(cfg["batch"], cfg["n_cont"], generator=gen)
        yield centers[y] + scales[y] * noise, y


@torch.no_grad()
def update_ema(ema, model, step, decay):
    beta = min(decay, (1 + step) / (10 + step))
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(beta).add_(p, alpha=1.0 - beta)


@torch.no_grad()
def preview(ema, cfg, fixed_z, fixed_y):
    ema.eval()
    rec = ema(fixed_z, fixed_y)
    mean = rec.view(cfg["n_cls"], -1, cfg["n_cont"]).mean(dim=1)
    torch_xla.sync()
    return mean.cpu()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    host_gen = torch.Generator().manual_seed(cfg["seed"])
    device = torch_xla.device()

    G, D = Generator(cfg).to(device), Critic(cfg).to(device)
    G_ema = copy.deepcopy(G).requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=cfg["lr_g"], betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=cfg["lr_d"], betas=(0.0, 0.99))

    per_cls = 16
    fixed_z = torch.randn(cfg["n_cls"] * per_cls, cfg["z_dim"], generator=host_gen).to(device)
    fixed_y = torch.arange(cfg["n_cls"]).repeat_interleave(per_cls).to(device)
    stream = record_stream(cfg, host_gen)

    for step in range(cfg["iters"]):
        real, y = next(stream)
        real, y = real.to(device), y.to(device)

        # critic
        z = torch.randn(cfg["batch"], cfg["z_dim"], generator=host_gen).to(device)
        with torch.no_grad():
            fake = G(z, y)
        loss_d = F.softplus(D(fake, y)).mean() + F.softplus(-D(real, y)).mean()
        if step % cfg["r1_every"] == 0:
            penalty = r1_penalty(D, real, y)
            loss_d = loss_d + 0.5 * cfg["r1_gamma"] * cfg["r1_every"] * penalty
        opt_d.zero_grad(set_to_none=True)
        loss_d.backward()
        opt_d.step()
        torch_xla.sync()

        # generator
        z = torch.randn(cfg["batch"], cfg["z_dim"], generator=host_gen).to(device)
        loss_g = F.softplus(-D(G(z, y), y)).mean()
        opt_g.zero_grad(set_to_none=True)
        loss_g.backward()
        opt_g.step()
        update_ema(G_ema, G, step, cfg["ema_decay"])
        torch_xla.sync()

        if step % 6 == 0:
            log.info("iter %d  d %.3f  g %.3f", step, loss_d.item(), loss_g.item())
        if (step + 1) % cfg["sample_every"] == 0:
            table = preview(G_ema, cfg, fixed_z, fixed_y)
            log.info("class means, first columns: %s", table[:, :2].tolist())


if __name__ == "__main__":
    main(CFG)
