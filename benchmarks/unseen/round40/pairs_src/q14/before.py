"""Quantile forecasts of wind power with a causal dilated convolution stack."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEAT, LOOKBACK, HORIZON, CH, BATCH = 4, 32, 6, 8, 5
QUANTILES = [0.1, 0.5, 0.9]


class CausalConv(nn.Module):
    def __init__(self, cin, cout, dilation, k=3):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)
        self.span = (k - 1) * dilation

    def forward(self, x):
        x = F.pad(x, (self.span, 0))
        return self.conv(x)


class GatedBlock(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.conv = CausalConv(CH, 2 * CH, dilation)
        self.skip = nn.Conv1d(CH, CH, 1)
        self.res = nn.Conv1d(CH, CH, 1)

    def forward(self, x):
        f, g = self.conv(x).chunk(2, dim=1)
        z = torch.tanh(f) * torch.sigmoid(g)
        return x + self.res(z), self.skip(z)


class WindNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv1d(FEAT, CH, 1)
        self.blocks = nn.ModuleList([GatedBlock(d) for d in (1, 2, 4)])
        self.out = nn.Linear(CH, HORIZON * len(QUANTILES))

    def forward(self, x):
        h = self.inp(x)
        skips = 0
        for blk in self.blocks:
            h, s = blk(h)
            skips = skips + s
        last = F.relu(skips)[:, :, -1]
        return self.out(last).view(-1, HORIZON, len(QUANTILES))


def pinball(pred, target, q):
    err = target.unsqueeze(-1) - pred
    loss = torch.maximum(q * err, (q - 1) * err)
    return loss.sum(dim=-1).mean()


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, FEAT, LOOKBACK, generator=g), torch.rand(BATCH, HORIZON, generator=g)


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p.data)
        if p.grad is not None:
            out.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main(path):
    torch.manual_seed(3)
    dev = torch_xla.device()
    model = WindNet().to(dev)
    q = torch.tensor(QUANTILES, device=dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
    for it in range(4):
        x, y = [t.to(dev) for t in batch(it)]
        torch_xla.sync()
        opt.zero_grad()
        pred = model(x)
        loss = pinball(pred, y, q)
        loss.backward()
        opt.step()
        if it == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, pred)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
