"""Diagnosis code prediction from visit features, with a focal loss against rare positives."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "seed": 29,
    "codes": 20,
    "numeric": 12,
    "categorical": (8, 14),
    "batch": 64,
    "steps": 30,
    "lr": 0.05,
    "gamma_start": 0.5,
    "gamma_end": 2.5,
    "alpha": 0.7,
    "log_every": 5,
}


class VisitEncoder(nn.Module):
    def __init__(self, numeric, categorical, dim=24):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in categorical)
        self.num = nn.Linear(numeric, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, numeric, cats):
        h = self.num(numeric)
        for i, table in enumerate(self.tables):
            h = h + table(cats[:, i])
        return F.silu(h) * torch.sigmoid(self.gate(h))


class CodePredictor(nn.Module):
    def __init__(self, cfg, dim=24):
        super().__init__()
        self.encoder = VisitEncoder(cfg["numeric"], cfg["categorical"], dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.out = nn.Linear(dim, cfg["codes"])
        nn.init.constant_(self.out.bias, -2.0)

    def forward(self, numeric, cats):
        h = self.encoder(numeric, cats)
        return self.out(h + self.mlp(h))


class FocalLoss(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        modulator = (1 - p_t + 1e-6) ** self.gamma
        return (weight * modulator * bce).sum(dim=1).mean()


class Visits:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg["seed"])
        self.w = torch.randn(cfg["numeric"], cfg["codes"], generator=self.gen)
        self.bias = [torch.randn(n, cfg["codes"], generator=self.gen) for n in cfg["categorical"]]

    def batch(self):
        n = self.cfg["batch"]
        numeric = torch.randn(n, self.cfg["numeric"], generator=self.gen)
        cats = torch.stack(
            [torch.randint(0, k, (n,), generator=self.gen) for k in self.cfg["categorical"]], dim=1
        )
        score = numeric @ self.w * 0.5 - 3.0
        for i, b in enumerate(self.bias):
            score = score + b[cats[:, i]]
        target = (torch.rand(score.shape, generator=self.gen) < torch.sigmoid(score)).float()
        return numeric, cats, target


def main(cfg):
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    data = Visits(cfg)
    model = CodePredictor(cfg).to(device)
    criterion = FocalLoss(cfg["alpha"], cfg["gamma_start"])
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=cfg["lr"], total_steps=cfg["steps"])
    losses, recalls = [], []

    for step in range(cfg["steps"]):
        progress = step / cfg["steps"]
        criterion.gamma = cfg["gamma_start"] + progress * (cfg["gamma_end"] - cfg["gamma_start"])

        numeric, cats, target = (t.to(device) for t in data.batch())
        logits = model(numeric, cats)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()

        with torch.no_grad():
            found = ((logits > -1.0).float() * target).sum() / target.sum().clamp(min=1.0)
        losses.append(loss.detach())
        recalls.append(found)
        xm.mark_step()

        if (step + 1) % cfg["log_every"] == 0:
            mean_loss = torch.stack(losses).mean()
            mean_recall = torch.stack(recalls).mean()
            xm.mark_step()
            print(f"step {step + 1:3d} loss {mean_loss.item():.4f} recall {mean_recall.item():.3f}")


if __name__ == "__main__":
    main(CONFIG)
