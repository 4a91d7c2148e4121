"""Continuous glucose forecasting: weight-normed TCN with a pinball loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

QUANTILES = (0.1, 0.5, 0.9)


class WNConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        v = torch.randn(cout, cin, k) * 0.2
        self.v = nn.Parameter(v)
        self.g = nn.Parameter(v.norm(dim=(1, 2), keepdim=True))
        self.b = nn.Parameter(torch.zeros(cout))
        self.k, self.d = k, dilation

    def forward(self, x):
        w = self.g * self.v / (self.v.pow(2).sum((1, 2), keepdim=True).sqrt() + 1e-8)
        span = (self.k - 1) * self.d
        x = F.pad(x, (span, 0))
        return F.conv1d(x, w, self.b, dilation=self.d)


class Block(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.conv1 = WNConv(cin, cout, 3, dilation)
        self.conv2 = WNConv(cout, cout, 3, dilation)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else None

    def forward(self, x):
        h = F.elu(self.conv1(x))
        h = F.elu(self.conv2(h))
        r = x if self.skip is None else self.skip(x)
        return F.elu(h + r)


class Forecaster(nn.Module):
    def __init__(self, feats=5, ch=8, horizon=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            [Block(feats, ch, 1), Block(ch, ch, 2)])
        self.head = nn.Linear(ch, horizon * len(QUANTILES))
        self.horizon = horizon

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        last = x[:, :, -1]
        return self.head(last).view(-1, self.horizon, len(QUANTILES))


def pinball(pred, y, valid):
    q = pred.new_tensor(QUANTILES)
    e = y.unsqueeze(-1) - pred
    l = torch.maximum(q * e, (q - 1) * e).mean(-1)
    return (l * valid).sum() / valid.sum().clamp(min=1)


def main(path):
    torch.manual_seed(3)
    dev = xm.xla_device()
    model = Forecaster().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    params = list(model.parameters())
    g = torch.Generator().manual_seed(5)
    for step in range(4):
        x = torch.randn(4, 5, 32, generator=g).to(dev)
        y = torch.randn(4, 6, generator=g).to(dev)
        valid = (torch.rand(4, 6, generator=g) > 0.2).float().to(dev)
        xm.mark_step()
        loss = pinball(model(x), y, valid)
        loss.backward()
        norm = torch.stack([p.grad.pow(2).sum() for p in params]).sum().sqrt()
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(scale)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 2:
            live = list(params)
            for p in params:
                live.append(opt.state[p]["square_avg"])
            live += [loss.detach(), norm]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item(), norm.item())


if __name__ == "__main__":
    main(sys.argv[1])
