"""Survival model on gene-expression panels: Cox partial likelihood over the batch (Breslow)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class RiskNet(nn.Module):
    def __init__(self, n_genes=24, n_clin=5, hidden=16):
        super().__init__()
        self.genes = nn.Linear(n_genes, hidden, bias=False)
        self.bn = nn.BatchNorm1d(hidden)
        self.clin = nn.Linear(n_clin, hidden // 2)
        self.mix = nn.Linear(hidden + hidden // 2, hidden)
        self.gate = nn.Linear(hidden + hidden // 2, hidden)
        self.risk = nn.Linear(hidden, 1, bias=False)

    def forward(self, genes, clin):
        g = F.selu(self.bn(self.genes(genes)))
        c = torch.tanh(self.clin(clin))
        x = torch.cat([g, c], dim=1)
        h = F.selu(self.mix(x)) * torch.sigmoid(self.gate(x))
        return self.risk(h).squeeze(1)


def cox_ph_loss(log_risk, time, event):
    order = torch.argsort(time, descending=True)
    log_risk = log_risk[order]
    event = event[order]
    m = log_risk.max().detach()
    cum = torch.cumsum(torch.exp(log_risk - m), dim=0)
    log_cum = torch.log(cum + 1e-12) + m
    return -((log_risk - log_cum) * event).sum() / (event.sum() + 1e-8)


def l1_penalty(weight, lam=1e-3):
    return lam * weight.abs().sum()


def step(model, opt, genes, clin, time, event):
    opt.zero_grad()
    log_risk = model(genes, clin)
    loss = cox_ph_loss(log_risk, time, event) + l1_penalty(model.genes.weight)
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0, foreach=False)
    opt.step()
    return loss.detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts += [p, p.grad]
        ts += [v for v in opt.state[p].values()
               if torch.is_tensor(v) and v.device.type == "xla"]
    ts += list(model.buffers())
    return ts


def main(out):
    torch.manual_seed(23)
    dev = xm.xla_device()
    model = RiskNet().to(dev)
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    for it in range(4):
        genes = torch.randn(20, 24).to(dev)
        clin = torch.randn(20, 5).to(dev)
        time = (torch.rand(20) * 60.0).to(dev)
        event = (torch.rand(20) < 0.4).float().to(dev)
        loss = step(model, opt, genes, clin, time, event)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss]))
            open(out, "w").write(text)
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
