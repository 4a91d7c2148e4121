"""Time to failure of district-heating pipes: a small residual network gives the log-risk of each
pipe section, trained by the Cox partial likelihood (ties ignored) within the batch,
with batch normalisation, a ridge on the log-risk, and AdamW in its AMSGrad form."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
FEATURES, MATERIALS, WIDTH, BATCH = 6, 4, 10, 12
RIDGE = 1e-3


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(F.elu(self.a(self.norm(x))))


class PipeRisk(nn.Module):
    def __init__(self):
        super().__init__()
        self.material = nn.Embedding(MATERIALS, 3)
        self.inp = nn.Linear(FEATURES + 3, WIDTH)
        self.block = Residual(WIDTH)
        self.out = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x, material):
        h = self.inp(torch.cat([x, self.material(material)], dim=1))
        return self.out(self.block(h)).squeeze(1)


def cox_loss(risk, years, failed):
    """Negative partial log-likelihood; the risk set of a pipe: all that lasted at least as long."""
    _, order = torch.sort(years, descending=True)
    risk = risk[order]
    failed = failed[order]
    peak = risk.max().detach()
    at_risk = torch.cumsum(torch.exp(risk - peak), dim=0)
    log_lik = risk - peak - torch.log(at_risk)
    return -(log_lik * failed).sum() / failed.sum().clamp(min=1.0)


def pending(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        s = opt.state[p]
        out += [p.data, p.grad, s["exp_avg"], s["exp_avg_sq"], s["max_exp_avg_sq"]]
    return out + list(net.buffers())


def main(target):
    torch.manual_seed(31)
    dev = torch_xla.device()
    net = PipeRisk().to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, amsgrad=True, weight_decay=0.01)
    gen = torch.Generator().manual_seed(14)
    torch_xla.sync()
    for step in range(4):
        x = torch.randn(BATCH, FEATURES, generator=gen).to(dev)
        material = torch.randint(0, MATERIALS, (BATCH,), generator=gen).to(dev)
        years = (60.0 * torch.rand(BATCH, generator=gen)).to(dev)
        failed = (torch.rand(BATCH, generator=gen) < 0.6).float().to(dev)
        opt.zero_grad()
        risk = net(x, material)
        loss = cox_loss(risk, years, failed) + RIDGE * risk.square().mean()
        loss.backward()
        opt.step()
        if step == 2:
            with open(os.path.join(HERE, target), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(net, opt, [loss])))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main("a.hlo")
