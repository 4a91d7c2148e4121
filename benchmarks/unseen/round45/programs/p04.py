"""Gas-sensor array under drift: streaming regression with a pull towards slow weights."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 21
SENSORS = 16
GASES = 3
WINDOW = 20
BATCH = 48
STEPS = 20


class DriftingArray:
    """Host-side stream: gain and baseline of each sensor wander with time."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(GASES, SENSORS, generator=self.g)
        self.gain = torch.ones(SENSORS)
        self.base = torch.zeros(SENSORS)

    def next(self, batch):
        self.gain += 0.01 * torch.randn(SENSORS, generator=self.g)
        self.base += 0.02 * torch.randn(SENSORS, generator=self.g)
        conc = torch.rand(batch, GASES, generator=self.g)
        t = torch.linspace(0, 1, WINDOW).view(1, WINDOW, 1)
        rise = 1 - torch.exp(-4 * t)
        clean = torch.log1p((conc @ self.mix.abs()))[:, None, :] * rise
        x = clean * self.gain + self.base
        x = x + 0.03 * torch.randn(x.shape, generator=self.g)
        return x, conc


class TemporalMixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time = nn.Linear(WINDOW, WINDOW)
        self.chan = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width),
                                  nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.time(x.transpose(1, 2)).transpose(1, 2)
        return x + self.chan(x)


class Calibrator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inp = nn.Linear(SENSORS, width)
        self.mix = TemporalMixer(width)
        self.out = nn.Linear(width, GASES)

    def forward(self, x):
        h = self.mix(torch.tanh(self.inp(x)))
        return torch.sigmoid(self.out(h.mean(1)))


class SlowWeights:
    """Exponentially averaged copy of the weights, used as the centre of a proximal term."""

    def __init__(self, model, horizon):
        self.keep = math.exp(-1.0 / horizon)
        self.avg = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.avg[name] = torch.lerp(self.avg[name], p, 1 - self.keep)

    def distance(self, model):
        total = 0.0
        for name, p in model.named_parameters():
            total = total + (p - self.avg[name]).pow(2).sum()
        return total

    def state_dict(self):
        return {k: v.cpu() for k, v in self.avg.items()}


def relative_error(pred, target):
    return ((pred - target).abs() / (target + 0.1)).mean()


@torch.no_grad()
def probe(model, batches):
    model.eval()
    errs = [relative_error(model(x), y) for x, y in batches]
    model.train()
    return torch.stack(errs).mean()


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    stream = DriftingArray(SEED)
    fixed = [tuple(t.to(device) for t in stream.next(BATCH)) for _ in range(2)]

    model = Calibrator().to(device)
    slow = SlowWeights(model, horizon=12)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    pull = 0.002
    torch_xla.sync()

    meter = torch.zeros((), device=device)
    for step in range(STEPS):
        x, y = stream.next(BATCH)
        x, y = x.to(device), y.to(device)
        pred = model(x)
        fit = F.smooth_l1_loss(pred, y, beta=0.1)
        loss = fit + pull * slow.distance(model)

        opt.zero_grad()
        loss.backward()
        opt.step()
        slow.update(model)
        meter = 0.95 * meter + 0.05 * fit.detach()
        torch_xla.sync()

        if (step + 1) % 5 == 0:
            err = probe(model, fixed)
            torch_xla.sync()
            print(f"step {step + 1:3d} fit {meter.item():.4f} backtest {err.item():.4f}")

    norm = sum(v.float().pow(2).sum().item() for v in slow.state_dict().values())
    print(f"slow weight norm {math.sqrt(norm):.3f}")


if __name__ == "__main__":
    main()
