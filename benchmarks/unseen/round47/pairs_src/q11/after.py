"""Self-supervised pretraining on three-component seismograms (BYOL style).

Two random views of every waveform window, an online encoder with a predictor,
a slow target encoder that follows by exponential moving average.
"""
import copy
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Encoder(nn.Module):
    def __init__(self, cin=3, width=8, dim=12):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, width, 5, stride=2, padding=2)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv2 = nn.Conv1d(width, width * 2, 5, stride=2, padding=2)
        self.proj = nn.Sequential(
            nn.Linear(width * 2, dim),
            nn.ReLU(),
            nn.Linear(dim, dim),
        )

    def forward(self, x):
        h = F.silu(self.norm1(self.conv1(x)))
        h = F.silu(self.conv2(h))
        h = h.mean(dim=-1)
        return self.proj(h)


class Learner(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.online = Encoder(dim=dim)
        self.predictor = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, dim))
        self.target = copy.deepcopy(self.online)

    @torch.no_grad()
    def update_target(self, tau):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(tau).add_(p, alpha=1.0 - tau)

    def embed_target(self, x):
        self.target.eval()
        return self.target(x)

    def forward(self, v1, v2):
        both = torch.cat([v1, v2])
        pred = self.predictor(self.online(both))
        goal = self.embed_target(both)
        t1, t2 = goal.chunk(2)
        return 2.0 * regression_loss(pred, torch.cat([t2, t1]))


def regression_loss(p, t):
    p = F.normalize(p, dim=-1)
    t = F.normalize(t, dim=-1)
    return (2.0 - 2.0 * (p * t).sum(dim=-1)).mean()


def make_views(wave, gain, shift_noise):
    v1 = wave * gain
    v2 = wave + 0.1 * shift_noise
    return v1, v2


def train_step(model, opt, wave, gain, noise):
    v1, v2 = make_views(wave, gain, noise)
    opt.zero_grad()
    loss = model(v1, v2)
    loss.backward()
    opt.step()
    model.update_target(0.99)
    return loss


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
    for group in opt.param_groups:
        for p in group["params"]:
            state = opt.state.get(p, {})
            out.extend(state[k] for k in sorted(state) if torch.is_tensor(state[k]))
    return [t for t in out if t.device.type == "xla"]


def main(path):
    torch.manual_seed(11)
    dev = xm.xla_device()
    model = Learner().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for it in range(3):
        wave = torch.randn(6, 3, 64).to(dev)
        gain = (0.8 + 0.4 * torch.rand(6, 1, 1)).to(dev)
        noise = torch.randn(6, 3, 64).to(dev)
        loss = train_step(model, opt, wave, gain, noise)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss))
            with open(path, "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "b.hlo"))
