"""Cox proportional-hazards MLP on synthetic survival data."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 31
N_TRAIN, N_VALID, N_COV = 1024, 256, 20
BATCH, EPOCHS = 128, 2


def make_cohort(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_COV)).astype(np.float32)
    x[:, 4:8] = (x[:, 4:8] > 0.5).astype(np.float32)
    risk = 0.8 * x[:, 0] - 0.6 * x[:, 4] + 0.4 * x[:, 1] * x[:, 5]
    t_event = rng.exponential(np.exp(-risk))
    t_censor = rng.exponential(1.5, size=n)
    time = np.minimum(t_event, t_censor).astype(np.float32)
    event = (t_event <= t_censor).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(time), torch.from_numpy(event)


class Residual(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        # few, large batches: plain averages of the statistics over the run
        self.norm = nn.BatchNorm1d(width, momentum=None)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        h = torch.relu(self.fc1(self.norm(x)))
        return x + self.fc2(self.drop(h))


class CoxNet(nn.Module):
    def __init__(self, width=32, depth=2, dropout=0.1):
        super().__init__()
        self.stem = nn.Linear(N_COV, width)
        self.blocks = nn.Sequential(*[Residual(width, dropout) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1, bias=False))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x))).squeeze(-1)


def cox_loss(log_risk, time, event):
    """Negative Breslow partial log-likelihood, risk sets taken within the batch."""
    order = torch.argsort(time, descending=True)
    log_risk = log_risk[order]
    event = event[order]
    top = log_risk.detach().max()
    log_cum = torch.log(torch.cumsum(torch.exp(log_risk - top), dim=0) + 1e-7) + top
    return -((log_risk - log_cum) * event).sum() / event.sum().clamp(min=1.0)


def concordance(log_risk, time, event):
    later = time.unsqueeze(0) > time.unsqueeze(1)
    comparable = later & (event.unsqueeze(1) > 0)
    right = log_risk.unsqueeze(1) > log_risk.unsqueeze(0)
    return (right & comparable).sum() / comparable.sum().clamp(min=1)


def batches(data, batch_size, generator):
    x, time, event = data
    perm = torch.randperm(x.size(0), generator=generator)
    for idx in perm.split(batch_size):
        if idx.numel() == batch_size:
            yield x[idx], time[idx], event[idx]


@torch.no_grad()
def validate(model, data, device):
    model.eval()
    x, time, event = (t.to(device) for t in data)
    c_index = concordance(model(x), time, event)
    torch_xla.sync()
    model.train()
    return c_index.item()


def main():
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()
    train, valid = make_cohort(N_TRAIN, SEED), make_cohort(N_VALID, SEED + 1)

    model = CoxNet().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)

    step = 0
    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        n = 0
        for x, time, event in batches(train, BATCH, generator):
            x, time, event = x.to(device), time.to(device), event.to(device)
            loss = cox_loss(model(x), time, event)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
            xm.mark_step()
            n += 1
            step += 1
        c_index = validate(model, valid, device)
        print(f"epoch {epoch} step {step} loss {total.item() / n:.4f} c-index {c_index:.3f}", flush=True)


if __name__ == "__main__":
    main()
