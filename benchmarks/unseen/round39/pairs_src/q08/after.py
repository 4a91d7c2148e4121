"""Sea-surface-temperature forecast on a lat/lon grid: residual conv net, EMA weights for rollouts."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

H, W = 8, 12


class PeriodicConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=(1, 0))

    def forward(self, x):
        return self.conv(torch.cat([x[..., -1:], x, x[..., :1]], dim=-1))


class ForecastNet(nn.Module):
    def __init__(self, cin=3, ch=6):
        super().__init__()
        self.enc = PeriodicConv(cin, ch)
        self.mid = PeriodicConv(ch, ch)
        self.scale = nn.Parameter(torch.full((ch, 1, 1), 0.1))
        self.dec = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        h = F.gelu(self.enc(x), approximate="tanh")
        h = h + self.scale * F.gelu(self.mid(h), approximate="tanh")
        return x[:, :1] + self.dec(h)


class EMA:
    def __init__(self, model, decay=0.995):
        self.model = copy.deepcopy(model)
        self.decay = decay
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.parameters(), model.parameters()):
            e.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)


def ocean_loss(pred, target, lat_w, ocean):
    w = lat_w.view(1, 1, H, 1) * ocean
    err = (pred - target) ** 2
    return (err * w).sum() / (w.sum() * pred.shape[0])


def train_step(model, ema, opt, x, y, lat_w, ocean):
    opt.zero_grad()
    loss = ocean_loss(model(x), y, lat_w, ocean)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    ema.update(model)
    opt.step()
    return loss.detach(), norm.detach()


def live(model, ema, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts += [p, p.grad]
        ts += [v for v in opt.state[p].values()
               if torch.is_tensor(v) and v.device.type == "xla"]
    ts += list(ema.model.parameters())
    return ts


def main(out):
    torch.manual_seed(31)
    dev = xm.xla_device()
    model = ForecastNet().to(dev)
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.05)
    lat = torch.linspace(-70, 70, H) * 3.14159265 / 180
    lat_w = (torch.cos(lat) / torch.cos(lat).mean()).to(dev)
    ocean = (torch.rand(1, 1, H, W) < 0.7).float().to(dev)
    torch_xla.sync()
    for it in range(4):
        x = torch.randn(2, 3, H, W).to(dev)
        y = torch.randn(2, 1, H, W).to(dev)
        loss, norm = train_step(model, ema, opt, x, y, lat_w, ocean)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, ema, opt, [loss, norm]))
            open(out, "w").write(text)
        torch_xla.sync()
        print(it, loss.item(), norm.item())


if __name__ == "__main__":
    main(sys.argv[1])
