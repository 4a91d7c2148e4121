"""Energy of small molecules: continuous-filter convolutions (SchNet like), EMA weights for evaluation.

Run: PJRT_DEVICE=CPU python before.py
"""
import copy
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "a.hlo")
ATOMS, ELEMENTS, WIDTH, RBF, LAYERS, BATCH = 6, 5, 10, 8, 2, 4
CUTOFF, EMA_DECAY = 5.0, 0.995


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class CFConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter1 = nn.Linear(RBF, WIDTH)
        self.filter2 = nn.Linear(WIDTH, WIDTH)
        self.lin_in = nn.Linear(WIDTH, WIDTH, bias=False)
        self.lin_out = nn.Linear(WIDTH, WIDTH)

    def forward(self, h, rbf, envelope):
        w = self.filter2(shifted_softplus(self.filter1(rbf))) * envelope.unsqueeze(-1)
        message = torch.einsum("bijf,bjf->bif", w, self.lin_in(h))
        return h + self.lin_out(shifted_softplus(message))


class SchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(ELEMENTS, WIDTH, padding_idx=0)
        self.convs = nn.ModuleList(CFConv() for _ in range(LAYERS))
        self.out1 = nn.Linear(WIDTH, WIDTH // 2)
        self.out2 = nn.Linear(WIDTH // 2, 1)
        self.register_buffer("centers", torch.linspace(0.0, CUTOFF, RBF))

    def forward(self, z, pos):
        mask = (z > 0).float()
        diff = pos.unsqueeze(1) - pos.unsqueeze(2)
        dist = torch.sqrt(diff.pow(2).sum(-1) + 1e-8)
        rbf = torch.exp(-2.0 * (dist.unsqueeze(-1) - self.centers) ** 2)
        envelope = 0.5 * (torch.cos(dist * math.pi / CUTOFF) + 1.0) * (dist < CUTOFF).float()
        pair = mask.unsqueeze(1) * mask.unsqueeze(2) * (1 - torch.eye(ATOMS, device=z.device))
        envelope = envelope * pair
        h = self.embed(z)
        for conv in self.convs:
            h = conv(h, rbf, envelope)
        atom_energy = self.out2(shifted_softplus(self.out1(h))).squeeze(-1)
        return (atom_energy * mask).sum(dim=1)


@torch.no_grad()
def update_ema(ema, model):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1.0 - EMA_DECAY)


def live_tensors(model, ema, opt, loss, mae):
    out = [loss, mae]
    for p in model.parameters():
        out.extend([p, p.grad])
        for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            if key in opt.state[p]:
                out.append(opt.state[p][key])
    out.extend(ema.parameters())
    return out


def main():
    torch.manual_seed(18)
    device = torch_xla.device()
    model = SchNet().to(device)
    ema = copy.deepcopy(model)
    for p in ema.parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, amsgrad=True)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(4)
    for step in range(1, 5):
        z = torch.randint(0, ELEMENTS, (BATCH, ATOMS), generator=gen).to(device)
        pos = (2.0 * torch.randn(BATCH, ATOMS, 3, generator=gen)).to(device)
        energy = torch.randn(BATCH, generator=gen).to(device)
        opt.zero_grad()
        pred = model(z, pos)
        loss = F.smooth_l1_loss(pred, energy)
        mae = (pred.detach() - energy).abs().mean()
        loss.backward()
        opt.step()
        update_ema(ema, model)
        if step == 2:
            with open(OUT, "w") as f:
                f.write(
                    torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, ema, opt, loss, mae))
                )
        torch_xla.sync()
        print(step, "%.6f %.6f" % (loss.item(), mae.item()))


if __name__ == "__main__":
    main()
