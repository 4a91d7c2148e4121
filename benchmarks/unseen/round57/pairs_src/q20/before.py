import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class S4DLayer(nn.Module):
    """Diagonal state-space layer, real-valued, causal convolution form."""

    def __init__(self, d_model, n_state=8, length=32, dt_min=1e-3, dt_max=1e-1):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        log_dt = torch.rand(d_model) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        self.log_dt = nn.Parameter(log_dt)
        self.log_a = nn.Parameter(torch.log(0.5 + torch.arange(n_state).float()).repeat(d_model, 1))
        self.c = nn.Parameter(torch.randn(d_model, n_state) / math.sqrt(n_state))
        self.d = nn.Parameter(torch.ones(d_model))
        self.gate = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        i = torch.arange(length)
        lag = i[:, None] - i[None, :]
        self.register_buffer("lag", lag.clamp(min=0), persistent=False)
        self.register_buffer("causal", (lag >= 0).float(), persistent=False)
        self.register_buffer("steps", i.float(), persistent=False)

    def kernel(self):
        dt = self.log_dt.exp()
        a = -self.log_a.exp()
        decay = torch.exp((a * dt[:, None])[..., None] * self.steps)
        b = (torch.exp(a * dt[:, None]) - 1.0) / a
        return torch.einsum("dn,dnl->dl", self.c * b, decay)

    def forward(self, x):
        h = self.norm(x)
        k = self.kernel()
        t = k[:, self.lag] * self.causal
        y = torch.einsum("dij,bjd->bid", t, h)
        y = y + h * self.d
        y = F.gelu(y) * torch.sigmoid(self.gate(h))
        return x + self.out(y)


class ECGClassifier(nn.Module):
    def __init__(self, leads=3, d_model=16, depth=2, n_classes=5, length=32):
        super().__init__()
        self.inp = nn.Linear(leads, d_model)
        self.layers = nn.ModuleList([S4DLayer(d_model, length=length) for _ in range(depth)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, x):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h).mean(1))


def build_optimizer(model, lr=0.05, wd=1e-2):
    ssm = [p for n, p in model.named_parameters() if "log_" in n]
    rest = [p for n, p in model.named_parameters() if "log_" not in n]
    return torch.optim.SGD(
        [{"params": rest}, {"params": ssm, "lr": 0.1 * lr, "weight_decay": 0.0}],
        lr=lr, momentum=0.9, weight_decay=wd,
    )


def train_step(model, opt, x, y):
    opt.zero_grad(set_to_none=True)
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    opt.step()
    acc = (logits.detach().argmax(-1) == y).float().mean()
    return loss.detach(), acc


def main(n_steps=5):
    import torch_xla

    torch.manual_seed(0)
    device = torch_xla.device()
    model = ECGClassifier().to(device)
    opt = build_optimizer(model)
    x = torch.randn(n_steps, 8, 32, 3)
    y = torch.randint(0, 5, (n_steps, 8))
    torch_xla.sync()
    for i in range(n_steps):
        loss, acc = train_step(model, opt, x[i].to(device), y[i].to(device))
        torch_xla.sync()
        print(i, f"{loss.item():.5f} {acc.item():.3f}")


if __name__ == "__main__":
    main()
