import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiagonalKernel(nn.Module):
    def __init__(self, d_model, n_state, length, dt_min=1e-3, dt_max=1e-1):
        super().__init__()
        self.log_a = nn.Parameter(torch.log(0.5 + torch.arange(n_state).float()).repeat(d_model, 1))
        log_dt = torch.rand(d_model) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        self.log_dt = nn.Parameter(log_dt)
        self.c = nn.Parameter(torch.randn(d_model, n_state) / math.sqrt(n_state))
        self.register_buffer("steps", torch.arange(length).float(), persistent=False)

    def forward(self):
        a = self.log_a.exp().neg()
        adt = a * self.log_dt.exp().unsqueeze(-1)
        b = (adt.exp() - 1.0) / a
        decay = (adt.unsqueeze(-1) * self.steps).exp()
        return torch.matmul((b * self.c).unsqueeze(1), decay).squeeze(1)


class S4DLayer(nn.Module):
    """Diagonal state-space layer, real-valued, causal convolution form."""

    def __init__(self, d_model, n_state=8, length=32):
        super().__init__()
        self.kernel = DiagonalKernel(d_model, n_state, length)
        self.norm = nn.LayerNorm(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.d = nn.Parameter(torch.ones(d_model))
        i = torch.arange(length)
        lag = i[:, None] - i[None, :]
        self.register_buffer("lag", lag.clamp(min=0), persistent=False)
        self.register_buffer("causal", (lag >= 0).float(), persistent=False)

    def toeplitz(self):
        k = self.kernel().index_select(1, self.lag.flatten())
        return k.unflatten(1, self.lag.shape) * self.causal

    def forward(self, x):
        h = self.norm(x)
        y = torch.bmm(self.toeplitz(), h.permute(2, 1, 0)).permute(2, 1, 0)
        y = F.gelu(torch.addcmul(y, self.d, h))
        return self.out(self.gate(h).sigmoid() * y) + x


class ECGClassifier(nn.Module):
    def __init__(self, leads=3, d_model=16, depth=2, n_classes=5, length=32):
        super().__init__()
        self.inp = nn.Linear(leads, d_model)
        self.layers = nn.Sequential(*(S4DLayer(d_model, length=length) for _ in range(depth)))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, x):
        h = self.norm(self.layers(self.inp(x)))
        return self.head(h.sum(1) / h.size(1))


def build_optimizer(model, lr=0.05, wd=1e-2):
    groups = {True: [], False: []}
    for name, p in model.named_parameters():
        groups["log_" in name].append(p)
    return torch.optim.SGD(
        [
            {"params": groups[True], "lr": 0.1 * lr, "weight_decay": 0.0},
            {"params": groups[False], "weight_decay": wd},
        ],
        lr=lr, momentum=0.9,
    )


def train_step(model, opt, x, y):
    opt.zero_grad(set_to_none=True)
    logp = model(x).log_softmax(-1)
    loss = F.nll_loss(logp, y)
    loss.backward()
    opt.step()
    acc = logp.detach().argmax(-1).eq(y).float().mean()
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
