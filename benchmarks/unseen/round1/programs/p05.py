import torch
import torch.nn as nn
import torch_xla


class Meter:
    def __init__(self):
        self.values = []

    def update(self, v):
        self.values.append(v.detach())

    @property
    def avg(self):
        return torch.stack(self.values).mean()


def build():
    return nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 1))


def fit(model, steps, device):
    meter = Meter()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for step in range(steps):
        x = torch.randn(8, 12).to(device)
        y = x.sum(1, keepdim=True)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(loss)
        history.append(meter.avg)
        torch_xla.sync()
        if step % 3 == 2:
            print(f"[{step + 1}/{steps}] loss={loss.item():.3f} avg={history[-1].item():.3f}")
    return history


torch.manual_seed(0)
dev = torch_xla.device()
fit(build().to(dev), 10, dev)
