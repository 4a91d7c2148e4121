import os
import torch
import torch.nn as nn
import torch_xla as xla
import torch_xla.core.xla_model as xm

EVAL_EVERY = int(os.environ.get("EVAL_EVERY", 4))
TOTAL = int(os.environ.get("TOTAL_STEPS", 8))
BS, T, N_MEL, N_CLS = 8, 20, 10, 6


class TDNNLayer(nn.Module):
    def __init__(self, cin, cout, kernel, dilation, p):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, dilation=dilation)
        self.act = nn.LeakyReLU(0.1)
        self.norm = nn.GroupNorm(1, cout)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.norm(self.act(self.conv(x))))


class StatsPool(nn.Module):
    def forward(self, x):
        if self.training:
            x = x + 1e-2 * torch.randn_like(x)
        mean = x.mean(-1)
        std = (x.var(-1, unbiased=False) + 1e-5).sqrt()
        return torch.cat([mean, std], dim=1)


class XVector(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.frames = nn.Sequential(
            TDNNLayer(N_MEL, 16, 5, 1, p),
            TDNNLayer(16, 16, 3, 2, p),
        )
        self.pool = StatsPool()
        self.segment = nn.Linear(32, 16)
        self.out = nn.Linear(16, N_CLS)

    def forward(self, x):
        h = self.pool(self.frames(x))
        return self.out(torch.tanh(self.segment(h)))


def utterances(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, N_CLS, (n,), generator=g)
    x = torch.randn(n, N_MEL, T, generator=g)
    x[torch.arange(n), y] += 1.0
    return x, y


@torch.no_grad()
def validate(model, device):
    model.eval()
    hits, n = 0, 0
    for seed in (900, 901):
        x, y = utterances(BS, seed)
        pred = model(x.to(device)).argmax(-1)
        xla.sync()
        hits += (pred.cpu() == y).sum().item()
        n += BS
    return hits / n


def build(device):
    model = XVector().to(device)
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim == 1 else decay).append(p)
    opt = torch.optim.RMSprop(
        [{"params": decay, "weight_decay": 1e-3}, {"params": plain}],
        lr=1e-3, alpha=0.95, momentum=0.5,
    )
    return model, opt


def main():
    torch.manual_seed(0)
    device = xla.device()
    model, opt = build(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    model.train()
    xla.sync()
    history = []
    for step in range(1, TOTAL + 1):
        x, y = utterances(BS, step)
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        xm.mark_step()
        history.append(loss.detach())
        if step % EVAL_EVERY == 0:
            acc = validate(model, device)
            xm.master_print(f"step {step}: val acc {acc:.3f}")
    losses = torch.stack(history).cpu().tolist()
    xm.master_print(" ".join(f"{l:.3f}" for l in losses))


if __name__ == "__main__":
    main()
