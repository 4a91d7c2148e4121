"""Survival model for pump failures: Cox partial likelihood (Breslow ties) with competing causes.

usage: step.py OUT STEP      writes the pending graph of training step STEP (counted from 1)
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FEATS, SITES, CAUSES, BATCH = 9, 6, 2, 14


class HazardNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.site = nn.Embedding(SITES, 4)
        self.inp = nn.Linear(FEATS + 4, width)
        self.norm = nn.LayerNorm(width)
        self.mid = nn.Linear(width, width)
        self.risk = nn.Linear(width, CAUSES, bias=False)

    def forward(self, x, site):
        h = torch.cat([x, self.site(site)], dim=1)
        h = F.selu(self.inp(h))
        h = h + F.selu(self.mid(self.norm(h)))
        return self.risk(h)


def cox_loss(risk, time, event):
    """Negative log partial likelihood; risk set = everyone with time >= t_i."""
    at_risk = (time.unsqueeze(0) >= time.unsqueeze(1)).float()
    top = risk.detach().max()
    denom = torch.log(at_risk @ torch.exp(risk - top) + 1e-12) + top
    return -((risk - denom) * event).sum() / event.sum().clamp(min=1.0)


def ranking_loss(risk, time, event, sigma=0.5):
    earlier = (time.unsqueeze(1) < time.unsqueeze(0)).float() * event.unsqueeze(1)
    gap = risk.unsqueeze(1) - risk.unsqueeze(0)
    return (earlier * torch.exp(-gap / sigma)).sum() / (earlier.sum() + 1.0)


def main(out, want):
    torch.manual_seed(29)
    device = xm.xla_device()
    net = HazardNet().to(device)
    params = list(net.parameters())
    opt = torch.optim.RAdam(params, lr=3e-3, betas=(0.9, 0.999), weight_decay=1e-3)
    for step in range(1, want + 1):
        x = torch.randn(BATCH, FEATS).to(device)
        site = torch.randint(SITES, (BATCH,)).to(device)
        time = torch.rand(BATCH).mul(10).round().to(device)
        cause = torch.randint(CAUSES + 1, (BATCH,)).to(device)
        torch_xla.sync()

        risk = net(x, site)
        loss = 0.0
        for c in range(CAUSES):
            event = (cause == c + 1).float()
            loss = loss + cox_loss(risk[:, c], time, event)
            loss = loss + 0.1 * ranking_loss(risk[:, c], time, event)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step == want:
            live = [loss.detach()] + [p.detach() for p in params]
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
