"""Multi-task regression/classification on tabular sensor data with gradient surgery (PCGrad)."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    n_rows=352,
    n_features=20,
    hidden=16,
    batch_size=32,
    epochs=2,
    lr=2e-3,
    seed=11,
    tasks=("price", "demand", "churn", "returns"),
)


def make_table(cfg):
    rng = np.random.RandomState(cfg["seed"])
    x = rng.randn(cfg["n_rows"], cfg["n_features"]).astype(np.float32)
    w = rng.randn(cfg["n_features"], 4).astype(np.float32) / 4
    y = np.tanh(x @ w) + 0.1 * rng.randn(cfg["n_rows"], 4)
    y = y.astype(np.float32)
    y[:, 2:] = (y[:, 2:] > 0).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class SharedBottom(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        h = cfg["hidden"]
        self.trunk = nn.Sequential(
            nn.Linear(cfg["n_features"], h), nn.ReLU()
        )
        self.heads = nn.ModuleDict({t: nn.Linear(h, 1) for t in cfg["tasks"]})

    def forward(self, x):
        z = self.trunk(x)
        return {name: head(z).squeeze(-1) for name, head in self.heads.items()}


class PCGrad:
    """Project conflicting gradients (Yu et al., 2020) on the shared parameters."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.shapes = [p.shape for p in self.shared]

    def _flat(self, grads):
        return torch.cat([g.reshape(-1) for g in grads])

    def _unflat(self, flat):
        out, pos = [], 0
        for shape in self.shapes:
            n = shape.numel()
            out.append(flat[pos:pos + n].view(shape))
            pos += n
        return out

    def backward(self, losses):
        grads = []
        for loss in losses:
            g = torch.autograd.grad(loss, self.shared, retain_graph=True)
            grads.append(self._flat(g))
        projected = []
        for i, g in enumerate(grads):
            others = [j for j in range(len(grads)) if j != i]
            random.shuffle(others)
            for j in others:
                dot = torch.dot(g, grads[j])
                coef = torch.clamp(dot, max=0.0) / (grads[j].pow(2).sum() + 1e-12)
                g = g - coef * grads[j]
            projected.append(g)
        merged = torch.stack(projected).sum(0)
        torch.stack(losses).sum().backward()
        for p, g in zip(self.shared, self._unflat(merged)):
            p.grad = g

    def step(self):
        xm.optimizer_step(self.optimizer, barrier=True)

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)


def task_losses(out, y):
    return [
        F.mse_loss(out["price"], y[:, 0]),
        F.smooth_l1_loss(out["demand"], y[:, 1]),
        F.binary_cross_entropy_with_logits(out["churn"], y[:, 2]),
        F.binary_cross_entropy_with_logits(out["returns"], y[:, 3]),
    ]


def main(cfg):
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    x, y = make_table(cfg)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y),
        batch_size=cfg["batch_size"], shuffle=True, drop_last=True,
    )
    model = SharedBottom(cfg).to(device)
    opt = PCGrad(torch.optim.Adam(model.parameters(), lr=cfg["lr"]), model.trunk.parameters())

    for epoch in range(cfg["epochs"]):
        running = torch.zeros(len(cfg["tasks"])).to(device)
        for xb, yb in loader:
            xb, yb = xb.to(device), yb.to(device)
            opt.zero_grad()
            losses = task_losses(model(xb), yb)
            opt.backward(losses)
            running += torch.stack(losses).detach()
            opt.step()
        means = (running / len(loader)).cpu().tolist()
        report = " ".join(f"{t}={v:.4f}" for t, v in zip(cfg["tasks"], means))
        print(f"epoch {epoch}: {report}")


if __name__ == "__main__":
    main(CFG)
