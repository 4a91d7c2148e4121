import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class RadialBasis(nn.Module):
    def __init__(self, n=8, cutoff=5.0):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("mu", torch.linspace(0.0, cutoff, n))
        self.gamma = n / cutoff

    def forward(self, r):
        g = torch.exp(-self.gamma * (r.unsqueeze(-1) - self.mu) ** 2)
        fc = 0.5 * (torch.cos(r * (math.pi / self.cutoff)) + 1.0)
        return g * fc.unsqueeze(-1)


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter1 = nn.Linear(n_rbf, dim)
        self.filter2 = nn.Linear(dim, dim)
        self.lin_in = nn.Linear(dim, dim, bias=False)
        self.lin_out = nn.Linear(dim, dim)

    def forward(self, h, rbf, mask):
        w = self.filter2(shifted_softplus(self.filter1(rbf))) * mask
        m = (self.lin_in(h).unsqueeze(1) * w).sum(dim=2)
        return h + shifted_softplus(self.lin_out(m))


class SchNet(nn.Module):
    def __init__(self, dim=16, n_rbf=8, layers=1):
        super().__init__()
        self.embed = nn.Embedding(10, dim)
        self.rbf = RadialBasis(n_rbf)
        self.blocks = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(layers))
        self.out1 = nn.Linear(dim, dim)
        self.out2 = nn.Linear(dim, 1)

    def forward(self, z, pos, eye):
        d = pos.unsqueeze(2) - pos.unsqueeze(1)
        r = torch.sqrt((d ** 2).sum(-1) + eye)
        mask = (1.0 - eye).unsqueeze(-1)
        rbf = self.rbf(r)
        h = self.embed(z)
        for block in self.blocks:
            h = block(h, rbf, mask)
        return self.out2(shifted_softplus(self.out1(h))).sum(dim=(1, 2))


def train_step(model, opt, batch, eye, rho=0.05):
    z, pos, energy, forces = batch
    pos.requires_grad_(True)
    e = model(z, pos, eye)
    f = -torch.autograd.grad(e.sum(), pos, create_graph=True)[0]
    loss = rho * F.mse_loss(e, energy) + (1 - rho) * F.mse_loss(f, forces)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def conformers(n, atoms=6):
    z = torch.randint(1, 9, (n, atoms))
    pos = 1.5 * torch.randn(n, atoms, 3)
    return z, pos, torch.randn(n), 0.1 * torch.randn(n, atoms, 3)


def main(steps=9, batch_size=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = SchNet().to(device)
    opt = torch.optim.RAdam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    eye = torch.eye(6).to(device)
    torch_xla.sync()
    for step in range(steps):
        batch = [t.to(device) for t in conformers(batch_size)]
        loss = train_step(model, opt, batch, eye)
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
