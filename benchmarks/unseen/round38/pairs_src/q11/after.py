"""Interatomic potential (SchNet style) fitted on energies and forces of padded clusters."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CUTOFF = 5.0


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - math.log(2.0)


class GaussianSmearing(nn.Module):
    def __init__(self, n_rbf):
        super().__init__()
        offset = torch.linspace(0.0, CUTOFF, n_rbf)
        self.coeff = -0.5 / (offset[1] - offset[0]).item() ** 2
        self.register_buffer("offset", offset)

    def forward(self, d):
        return torch.exp(self.coeff * (d.unsqueeze(-1) - self.offset) ** 2)


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), ShiftedSoftplus(), nn.Linear(dim, dim))
        self.lin_in = nn.Linear(dim, dim, bias=False)
        self.lin_out = nn.Linear(dim, dim)
        self.act = ShiftedSoftplus()

    def forward(self, h, rbf, weight):
        w = self.filter(rbf) * weight.unsqueeze(-1)
        msg = (self.lin_in(h).unsqueeze(1) * w).sum(2)
        return h + self.lin_out(self.act(msg))


class Potential(nn.Module):
    def __init__(self, n_species=5, dim=8, n_rbf=6):
        super().__init__()
        self.embed = nn.Embedding(n_species, dim)
        self.rbf = GaussianSmearing(n_rbf)
        self.inter = Interaction(dim, n_rbf)
        self.readout = nn.Sequential(nn.Linear(dim, dim // 2), ShiftedSoftplus(), nn.Linear(dim // 2, 1))

    def forward(self, z, pos, mask):
        diff = pos.unsqueeze(1) - pos.unsqueeze(2)
        eye = torch.eye(pos.shape[1], device=pos.device)
        d = torch.sqrt((diff ** 2).sum(-1) + eye)
        pair = mask.unsqueeze(1) * mask.unsqueeze(2) * (1.0 - eye)
        envelope = 0.5 * (torch.cos(d * math.pi / CUTOFF) + 1.0) * (d < CUTOFF).float()
        h = self.embed(z)
        h = self.inter(h, self.rbf(d), pair * envelope)
        return (self.readout(h).squeeze(-1) * mask).sum(1)


def loss_fn(model, batch, rho=0.05):
    z, pos, mask, energy_ref, force_ref = batch
    pos = pos.detach().requires_grad_(True)
    energy = model(z, pos, mask)
    forces = -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]
    n_atoms = mask.sum(1)
    e_loss = (((energy - energy_ref) / n_atoms) ** 2).mean()
    f_err = ((forces - force_ref) ** 2).sum(-1) * mask
    f_loss = f_err.mean() / 3.0
    return rho * e_loss + (1.0 - rho) * f_loss


def make_batch(device, B=2, N=5):
    z = torch.randint(1, 5, (B, N))
    pos = torch.randn(B, N, 3) * 1.5
    mask = torch.ones(B, N)
    mask[0, 4:] = 0
    mask[1, 3:] = 0
    z = z * mask.long()
    return [t.to(device) for t in (z, pos, mask, torch.randn(B), torch.randn(B, N, 3) * mask[..., None])]


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(out):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Potential().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    batches = [make_batch(device) for _ in range(3)]
    torch_xla.sync()
    for i, batch in enumerate(batches):
        loss = loss_fn(model, batch)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if i == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss])))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
