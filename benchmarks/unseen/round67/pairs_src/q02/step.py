"""Time-to-failure of wind turbine bearings: Cox partial likelihood on SCADA features."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

FEATURES = 14
BATCH = 24


class HazardNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(FEATURES, width), nn.BatchNorm1d(width), nn.ELU(),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ELU(),
        )
        self.gate = nn.Sequential(nn.Linear(FEATURES, width), nn.Sigmoid())
        self.risk = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        return self.risk(self.trunk(x) * self.gate(x)).squeeze(-1)


def cox_loss(log_h, time, event):
    order = torch.argsort(time, descending=True)
    log_h, event = log_h[order], event[order]
    top = log_h.max().detach()
    log_cum = torch.log(torch.cumsum(torch.exp(log_h - top), dim=0) + 1e-7) + top
    return -((log_h - log_cum) * event).sum() / event.sum().clamp(min=1.0)


class Trainer:
    def __init__(self, model, device, sparsity=1e-3):
        self.model = model
        self.device = device
        self.sparsity = sparsity
        self.activations = []
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))

    def _remember(self, module, inputs, output):
        self.activations.append(output.abs().mean())

    def batches(self, epoch, n):
        g = torch.Generator().manual_seed(epoch)
        for _ in range(n):
            x = torch.randn(BATCH, FEATURES, generator=g)
            time = torch.rand(BATCH, generator=g) * 900.0
            event = (torch.rand(BATCH, generator=g) < 0.4).float()
            yield tuple(t.to(self.device) for t in (x, time, event))

    def fit_epoch(self, epoch, n=3):
        self.model.train()
        self.model.trunk.register_forward_hook(self._remember)
        for i, (x, time, event) in enumerate(self.batches(epoch, n)):
            self.activations.clear()
            self.opt.zero_grad()
            loss = cox_loss(self.model(x), time, event)
            loss = loss + self.sparsity * sum(self.activations)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            torch_xla.sync()
            print(epoch, i, met.counter_value("UncachedCompile"), round(loss.item(), 4))


def main():
    torch.manual_seed(1)
    device = xm.xla_device()
    model = HazardNet().to(device)
    torch_xla.sync()
    trainer = Trainer(model, device)
    for epoch in range(2):
        trainer.fit_epoch(epoch)


if __name__ == "__main__":
    main()
