"""Co-teaching on tabular data with noisy labels: two networks pick the
small-loss rows of a batch for each other."""
import pandas as pd
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

config = {
    "rows": 2048,
    "features": 12,
    "classes": 4,
    "noise": 0.3,
    "batch": 64,
    "epochs": 2,
    "ramp_steps": 40,
    "lr": 2e-3,
    "log_interval": 8,
}


def build_frame(cfg, seed=7):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(cfg["rows"], cfg["features"]))
    centers = rng.normal(size=(cfg["features"], cfg["classes"]))
    y = (x @ centers).argmax(1)
    flip = rng.random(cfg["rows"]) < cfg["noise"]
    noisy = np.where(flip, rng.integers(0, cfg["classes"], cfg["rows"]), y)
    df = pd.DataFrame(x, columns=[f"f{i}" for i in range(cfg["features"])])
    df["label"] = noisy
    return df


def batches(df, cfg, epoch):
    shuffled = df.sample(frac=1.0, random_state=epoch)
    feats = shuffled.drop(columns="label").to_numpy(dtype=np.float32)
    labels = shuffled["label"].to_numpy(dtype=np.int64)
    for i in range(0, len(df), cfg["batch"]):
        yield torch.from_numpy(feats[i:i + cfg["batch"]]), torch.from_numpy(labels[i:i + cfg["batch"]])


def mlp(cfg):
    return nn.Sequential(
        nn.Linear(cfg["features"], 32), nn.ReLU(),
        nn.Linear(32, 32), nn.ReLU(),
        nn.Linear(32, cfg["classes"]),
    )


def remember_rate(step, cfg):
    return 1.0 - cfg["noise"] * min(1.0, step / cfg["ramp_steps"])


def coteaching_loss(logits_a, logits_b, target, rate):
    per_row_a = F.cross_entropy(logits_a, target, reduction="none")
    per_row_b = F.cross_entropy(logits_b, target, reduction="none")
    num_keep = int(rate * target.shape[0])
    keep_a = torch.argsort(per_row_a.detach())[:num_keep]
    keep_b = torch.argsort(per_row_b.detach())[:num_keep]
    loss_a = per_row_a.index_select(0, keep_b).sum() / num_keep
    loss_b = per_row_b.index_select(0, keep_a).sum() / num_keep
    return loss_a, loss_b


class History:
    """Keeps every training loss for the summary lines."""

    def __init__(self):
        self.a, self.b = [], []

    def push(self, loss_a, loss_b):
        self.a.append(loss_a.detach())
        self.b.append(loss_b.detach())

    def summary(self):
        a, b = torch.stack(self.a), torch.stack(self.b)
        disagreement = (a - b).abs().mean()
        return a.mean().item(), b.mean().item(), disagreement.item()


def run(cfg):
    torch.manual_seed(1)
    device = xm.xla_device()
    df = build_frame(cfg)
    net_a, net_b = mlp(cfg).to(device), mlp(cfg).to(device)
    opt_a = torch.optim.Adam(net_a.parameters(), lr=cfg["lr"])
    opt_b = torch.optim.Adam(net_b.parameters(), lr=cfg["lr"])
    history = History()
    step = 0
    for epoch in range(cfg["epochs"]):
        for x, y in batches(df, cfg, epoch):
            x, y = x.to(device), y.to(device)
            loss_a, loss_b = coteaching_loss(net_a(x), net_b(x), y, remember_rate(step, cfg))
            opt_a.zero_grad()
            loss_a.backward()
            opt_a.step()
            opt_b.zero_grad()
            loss_b.backward()
            opt_b.step()
            history.push(loss_a, loss_b)
            xm.mark_step()
            step += 1
            if step % cfg["log_interval"] == 0:
                ma, mb, dis = history.summary()
                print(f"[{epoch}:{step:03d}] a={ma:.4f} b={mb:.4f} gap={dis:.4f}")


if __name__ == "__main__":
    run(config)
