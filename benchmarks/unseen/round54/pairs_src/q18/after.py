"""Allen-Cahn, u_t = D u_xx + 5 (u - u^3), on x in [-1, 1], periodic; PINN with causal weighting in time."""
import math

import torch
import torch.nn as nn
import torch_xla

D = 1e-4
CHUNKS = 8
PER_CHUNK = 16


class PINN(nn.Module):
    def __init__(self, width=24, modes=4):
        super().__init__()
        self.register_buffer("k", math.pi * torch.arange(1, modes + 1, dtype=torch.float32))
        self.inp = nn.Linear(2 * modes + 1, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, t, x):
        kx = x * self.k
        h = torch.cat([t, torch.cos(kx), torch.sin(kx)], dim=-1)
        h = torch.tanh(self.inp(h))
        h = h + torch.tanh(self.hidden(h))
        return self.out(h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(model, t, x):
    t.requires_grad_(True)
    x.requires_grad_(True)
    u = model(t, x)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t - D * u_xx - 5.0 * (u - u ** 3)


@torch.no_grad()
def causal_weights(per_chunk, tri, eps):
    return torch.exp(-eps * (tri @ per_chunk))


def pde_loss(model, t, x, tri, eps):
    per_chunk = residual(model, t, x).view(CHUNKS, PER_CHUNK).pow(2).mean(dim=1)
    weights = causal_weights(per_chunk, tri, eps)
    return (weights * per_chunk).mean(), weights.min()


def initial_loss(model, x):
    u0 = x ** 2 * torch.cos(math.pi * x)
    return (model(torch.zeros_like(x), x) - u0).pow(2).mean()


def collocation():
    t = (torch.arange(CHUNKS).unsqueeze(1) + torch.rand(CHUNKS, PER_CHUNK)) / CHUNKS
    x = 2.0 * torch.rand(CHUNKS * PER_CHUNK, 1) - 1.0
    return t.view(-1, 1), x, 2.0 * torch.rand(32, 1) - 1.0


def main(steps=4, eps=0.5):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = PINN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    tri = torch.tril(torch.ones(CHUNKS, CHUNKS), diagonal=-1).to(device)
    torch_xla.sync()
    for step in range(steps):
        t, x, x0 = (a.to(device) for a in collocation())
        pde, w_min = pde_loss(model, t, x, tri, eps)
        loss = pde + 100.0 * initial_loss(model, x0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f} w_min {w_min.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
