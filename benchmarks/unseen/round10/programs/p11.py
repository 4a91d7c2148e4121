"""Credit portfolio model: one shared trunk, four targets, gradient surgery between the targets."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    n_num=12,
    cat_cards=(7, 5, 11),
    emb=6,
    hidden=48,
    batch=64,
    steps=22,
    lr=3e-3,
    tasks=("default", "churn", "spend", "upsell"),
    seed=11,
)


class Trunk(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, cfg["emb"]) for c in cfg["cat_cards"]])
        d = cfg["n_num"] + cfg["emb"] * len(cfg["cat_cards"])
        self.net = nn.Sequential(
            nn.Linear(d, cfg["hidden"]), nn.LayerNorm(cfg["hidden"]), nn.GELU(),
            nn.Linear(cfg["hidden"], cfg["hidden"]), nn.LayerNorm(cfg["hidden"]), nn.GELU(),
        )

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        return self.net(torch.cat([num] + e, dim=1))


def make_heads(cfg):
    return nn.ModuleDict({t: nn.Sequential(nn.Linear(cfg["hidden"], 16), nn.ReLU(), nn.Linear(16, 1))
                          for t in cfg["tasks"]})


def synth(cfg, n=2048):
    rng = np.random.default_rng(cfg["seed"])
    num = rng.normal(size=(n, cfg["n_num"])).astype("float32")
    cat = np.stack([rng.integers(0, c, n) for c in cfg["cat_cards"]], 1)
    w = rng.normal(size=(cfg["n_num"], 4)).astype("float32")
    raw = num @ w + 0.2 * cat[:, :1]
    y = {"default": (raw[:, 0] > 1).astype("float32"), "churn": (raw[:, 1] > 0).astype("float32"),
         "spend": raw[:, 2] / 3, "upsell": (raw[:, 3] > 2).astype("float32")}
    return torch.from_numpy(num), torch.from_numpy(cat), {k: torch.from_numpy(np.asarray(v)) for k, v in y.items()}


def task_loss(name, out, target):
    if name == "spend":
        return F.smooth_l1_loss(out, target)
    return F.binary_cross_entropy_with_logits(out, target)


def flat(grads):
    return torch.cat([g.reshape(-1) for g in grads])


def project_conflicts(per_task):
    """Gradient surgery (Yu et al. 2020)."""
    merged = []
    for i, g in enumerate(per_task):
        others = [h for j, h in enumerate(per_task) if j != i]
        random.shuffle(others)
        for h in others:
            dot = torch.clamp(torch.dot(g, h), max=0.0)
            g = g - dot / (h.norm() ** 2 + 1e-8) * h
        merged.append(g)
    return torch.stack(merged).sum(0)


def write_back(params, vec):
    at = 0
    for p in params:
        p.grad = vec[at:at + p.numel()].view_as(p)
        at += p.numel()


def main(cfg):
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    device = xm.xla_device()
    trunk, heads = Trunk(cfg).to(device), make_heads(cfg).to(device)
    shared = list(trunk.parameters())
    opt = torch.optim.SGD(shared + list(heads.parameters()), lr=cfg["lr"])
    num, cat, ys = synth(cfg)

    for step in range(cfg["steps"]):
        idx = torch.randint(0, num.shape[0], (cfg["batch"],))
        x, c = num[idx].to(device), cat[idx].to(device)
        feats = trunk(x, c)
        losses = {t: task_loss(t, heads[t](feats).squeeze(1), ys[t][idx].to(device)) for t in cfg["tasks"]}
        opt.zero_grad()
        per_task = [flat(torch.autograd.grad(l, shared, retain_graph=True)) for l in losses.values()]
        head_params = list(heads.parameters())
        for p, g in zip(head_params, torch.autograd.grad(sum(losses.values()), head_params)):
            p.grad = g
        write_back(shared, project_conflicts(per_task))
        opt.step()
        torch_xla.sync()
        if step % 7 == 0:
            print(f"step {step:3d} " + " ".join(f"{k}={v.item():.3f}" for k, v in losses.items()))


if __name__ == "__main__":
    main(CFG)
