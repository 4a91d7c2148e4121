"""Time-to-event model for turbine bearings: Cox partial likelihood, averaged weights for evaluation."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class HazardNet(nn.Module):
    def __init__(self, sensors=9, hidden=14):
        super().__init__()
        self.inp = nn.Linear(sensors, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.scale = nn.Parameter(torch.ones(hidden))
        self.out = nn.Linear(hidden, 1, bias=False)

    def forward(self, x):
        h = F.mish(self.inp(x))
        h = h + self.scale * F.mish(self.mid(h))
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.out(h).squeeze(-1)


class WeightAverage:
    """Exponential average of the weights, warmed up by the number of updates."""

    def __init__(self, params, decay, device):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in params]
        self.count = torch.zeros((), device=device)

    @torch.no_grad()
    def update(self, params):
        self.count += 1
        d = torch.clamp((1 + self.count) / (10 + self.count), max=self.decay)
        for s, p in zip(self.shadow, params):
            s.lerp_(p, 1 - d)


def cox_loss(risk, time, event):
    at_risk = time[None, :] >= time[:, None]
    log_denom = torch.logsumexp(
        torch.where(at_risk, risk[None, :], torch.full_like(risk[None, :], -1e9)), dim=1
    )
    return -((risk - log_denom) * event).sum() / event.sum().clamp(min=1.0)


@torch.no_grad()
def concordance(risk, time, event):
    pairs = (time[:, None] < time[None, :]).float() * event[:, None]
    good = (risk[:, None] > risk[None, :]).float()
    return (pairs * good).sum() / pairs.sum().clamp(min=1.0)


def train_step(model, opt, avg, x, time, event):
    opt.zero_grad(set_to_none=True)
    risk = model(x)
    loss = cox_loss(risk, time, event) + 1e-3 * model.scale.abs().sum()
    loss.backward()
    avg.update(model.parameters())
    opt.step()
    return loss.detach(), concordance(risk.detach(), time, event)


def main(out):
    torch.manual_seed(31)
    dev = torch_xla.device()
    model = HazardNet().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    avg = WeightAverage(list(model.parameters()), 0.995, dev)
    for step in range(3):
        x = torch.randn(20, 9).to(dev)
        time = torch.rand(20).to(dev)
        event = (torch.rand(20) < 0.7).float().to(dev)
        torch_xla.sync()
        loss, cidx = train_step(model, opt, avg, x, time, event)
        live = [loss, cidx, avg.count]
        for p, s in zip(model.parameters(), avg.shadow):
            live += [p, p.grad, opt.state[p]["momentum_buffer"], s]
        if step == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), cidx.item(), sum(s.sum().item() for s in avg.shadow))


if __name__ == "__main__":
    main(sys.argv[1])
