"""Interatomic potential for small organic molecules: energies and forces, fine-tuning loop."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LN2 = 0.6931471805599453
CUTOFF = 4.0


class RadialBasis(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        centers = torch.linspace(0.5, CUTOFF, n)
        self.register_buffer("centers", centers)
        self.gamma = 1.7

    def forward(self, d):
        return torch.exp(-self.gamma * (d.unsqueeze(-1) - self.centers) ** 2)


def shifted_softplus(x):
    return F.softplus(x) - LN2


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.in2f = nn.Linear(dim, dim, bias=False)
        self.filter1 = nn.Linear(n_rbf, dim)
        self.filter2 = nn.Linear(dim, dim, bias=False)
        self.f2out = nn.Linear(dim, dim)

    def forward(self, x, rbf, cut):
        w = self.filter2(shifted_softplus(self.filter1(rbf)))
        w = w * cut.unsqueeze(-1)
        y = self.in2f(x)
        y = (w * y.unsqueeze(1)).sum(dim=2)
        return x + shifted_softplus(self.f2out(y))


class Potential(nn.Module):
    def __init__(self, n_species=4, dim=8, n_rbf=6):
        super().__init__()
        self.embed = nn.Embedding(n_species, dim)
        self.rbf = RadialBasis(n_rbf)
        self.block = Interaction(dim, n_rbf)
        self.out1 = nn.Linear(dim, dim // 2)
        self.out2 = nn.Linear(dim // 2, 1)

    def energy(self, z, pos, eye):
        diff = pos.unsqueeze(2) - pos.unsqueeze(1)
        dist = torch.sqrt((diff ** 2).sum(-1) + eye)
        cut = 0.5 * (torch.cos(dist * (3.14159265 / CUTOFF)) + 1.0) * (1.0 - eye)
        x = self.embed(z)
        x = self.block(x, self.rbf(dist), cut)
        return self.out2(shifted_softplus(self.out1(x))).squeeze(-1).sum(1)

    def forward(self, z, pos, eye):
        pos = pos.detach().requires_grad_(True)
        energy = self.energy(z, pos, eye)
        grad, = torch.autograd.grad(
            energy.sum(), pos, create_graph=self.training, retain_graph=True)
        return energy, -grad


def fit_step(model, opt, batch, rho=0.05):
    opt.zero_grad(set_to_none=True)
    e, f = model(batch["z"], batch["pos"], batch["eye"])
    loss_e = F.mse_loss(e, batch["energy"])
    loss_f = F.mse_loss(f, batch["forces"])
    loss = rho * loss_e + (1.0 - rho) * loss_f
    loss.backward()
    opt.step()
    return loss.detach()


def validate(model, batch):
    model.eval()
    e, f = model(batch["z"], batch["pos"], batch["eye"])
    mae = (f - batch["forces"]).abs().mean()
    return mae.detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts.append(p)
        if p.grad is not None:
            ts.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                ts.append(v)
    return ts


def main(out):
    torch.manual_seed(3)
    dev = xm.xla_device()
    model = Potential().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-2)
    B, N = 3, 5
    batch = {
        "z": torch.randint(0, 4, (B, N)),
        "pos": torch.randn(B, N, 3),
        "eye": torch.eye(N).unsqueeze(0),
        "energy": torch.randn(B),
        "forces": torch.randn(B, N, 3),
    }
    batch = {k: v.to(dev) for k, v in batch.items()}
    torch_xla.sync()
    for epoch in range(2):
        model.train()
        for it in range(2):
            loss = fit_step(model, opt, batch)
            if epoch == 1 and it == 0:
                text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss]))
                open(out, "w").write(text)
            torch_xla.sync()
            print(epoch, it, loss.item())
        mae = validate(model, batch)
        torch_xla.sync()
        print("val mae", mae.item())


if __name__ == "__main__":
    main(sys.argv[1])
