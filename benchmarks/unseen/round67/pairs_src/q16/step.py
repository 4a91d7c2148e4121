"""Sub-bottom sonar: layer-boundary picking with a dilated temporal net."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met


class DilatedBlock(nn.Module):

    def __init__(self, ch, dilation):
        super().__init__()
        self.filt = nn.Conv1d(ch, ch, 3, dilation=dilation, padding=dilation)
        self.gate = nn.Conv1d(ch, ch, 3, dilation=dilation, padding=dilation)
        self.skip = nn.Conv1d(ch, ch, 1)
        self.norm = nn.GroupNorm(2, ch)

    def forward(self, x):
        y = torch.tanh(self.filt(x)) * torch.sigmoid(self.gate(x))
        y = self.skip(y)
        return self.norm(x + y), y


class Picker(nn.Module):

    def __init__(self, ch=8, dilations=(1, 2, 4), layers=3):
        super().__init__()
        self.lift = nn.Conv1d(2, ch, 5, padding=2)
        self.blocks = nn.ModuleList(DilatedBlock(ch, d) for d in dilations)
        self.pick = nn.Conv1d(ch, layers + 1, 1)

    def forward(self, trace):
        x = self.lift(trace)
        total = 0
        for block in self.blocks:
            x, y = block(x)
            total = total + y
        return self.pick(F.elu(total))


class TraceCrop:

    def __init__(self, window, seed):
        self.window = window
        self.rand = random.Random(seed)

    def __call__(self, trace, label):
        start = self.rand.randrange(1, trace.shape[-1] - self.window)
        return trace[..., start:start + self.window], label[..., start:start + self.window]


class Trainer:

    def __init__(self, device, log_every=5):
        self.device = device
        self.model = Picker().to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.crop = TraceCrop(48, seed=8)
        self.log_every = log_every
        self.smooth = {"loss": torch.zeros(()).to(device), "hit": torch.zeros(()).to(device)}

    def training_step(self, trace, label):
        trace, label = self.crop(trace, label)
        out = self.model(trace)
        ce = F.cross_entropy(out, label, reduction="none")
        weight = 1.0 + 2.0 * (label > 0).float()
        loss = (ce * weight).sum() / weight.sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return {"loss": loss.detach(), "out": out.detach(), "label": label}

    def on_step_end(self, n, result):
        if n % self.log_every:
            return
        hit = (result["out"].argmax(1) == result["label"]).float().mean()
        for name, value in (("loss", result["loss"]), ("hit", hit)):
            self.smooth[name] = 0.9 * self.smooth[name] + 0.1 * value

    def fit(self, lines, steps):
        for n in range(1, steps + 1):
            trace, label = next(lines)
            result = self.training_step(trace.to(self.device), label.to(self.device))
            torch_xla.sync()
            self.on_step_end(n, result)
            print(f"step {n} compiled {met.counter_value('UncachedCompile')}")


def survey(batch, length, seed):
    gen = torch.Generator().manual_seed(seed)
    while True:
        depth = (torch.rand(batch, 3, generator=gen) * length).long().clamp(max=length - 1).sort(-1).values
        label = torch.zeros(batch, length, dtype=torch.long)
        trace = 0.3 * torch.randn(batch, 2, length, generator=gen)
        for k in range(3):
            label.scatter_(1, depth[:, k:k + 1], k + 1)
            trace.scatter_(2, depth[:, None, k:k + 1].expand(-1, 2, -1), 2.0 / (k + 1))
        yield trace, label


if __name__ == "__main__":
    torch.manual_seed(8)
    Trainer(torch_xla.device()).fit(survey(4, 64, 8), steps=9)
