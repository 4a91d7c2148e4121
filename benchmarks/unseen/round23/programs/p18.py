# BPR matrix factorisation with item side features
import collections
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader
from torch.utils.data import DataLoader, Dataset

config = {
    "users": 80,
    "items": 150,
    "dim": 16,
    "tags": 12,
    "batch_size": 64,
    "epochs": 7,
    "lr": 0.05,
    "reg": 1e-4,
    "log_every": 5,
}


class Interactions(Dataset):
    """Triples (user, clicked item, random other item) from a latent taste model."""

    def __init__(self, cfg, n=1024, seed=9):
        g = torch.Generator().manual_seed(seed)
        taste_u = torch.randn(cfg["users"], 4, generator=g)
        taste_i = torch.randn(cfg["items"], 4, generator=g)
        scores = taste_u @ taste_i.T
        self.user = torch.randint(0, cfg["users"], (n,), generator=g)
        probs = torch.softmax(scores[self.user], dim=1)
        self.pos = torch.multinomial(probs, 1, generator=g).squeeze(1)
        self.neg = torch.randint(0, cfg["items"], (n,), generator=g)
        self.tags = (torch.rand(cfg["items"], cfg["tags"], generator=g) < 0.2).float()

    def __len__(self):
        return self.user.numel()

    def __getitem__(self, i):
        return self.user[i], self.pos[i], self.neg[i]


class BPR(nn.Module):
    def __init__(self, cfg, tags):
        super().__init__()
        self.user = nn.Embedding(cfg["users"], cfg["dim"])
        self.item = nn.Embedding(cfg["items"], cfg["dim"])
        self.tag_proj = nn.Linear(cfg["tags"], cfg["dim"], bias=False)
        self.item_bias = nn.Embedding(cfg["items"], 1)
        self.register_buffer("tags", tags)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def item_vec(self, i):
        return self.item(i) + self.tag_proj(self.tags[i])

    def forward(self, u, i, j):
        pu, qi, qj = self.user(u), self.item_vec(i), self.item_vec(j)
        diff = (pu * (qi - qj)).sum(-1) + (self.item_bias(i) - self.item_bias(j)).squeeze(-1)
        reg = pu.pow(2).sum(-1) + qi.pow(2).sum(-1) + qj.pow(2).sum(-1)
        return diff, reg


class Meter:
    """Collects scalars and reports their average."""

    def __init__(self):
        self.values = collections.defaultdict(list)

    def update(self, **scalars):
        for name, v in scalars.items():
            self.values[name].append(v.detach())

    def average(self, name):
        return torch.stack(self.values[name]).mean().item()

    def summary(self):
        return " ".join(f"{name}={self.average(name):.4f}" for name in sorted(self.values))


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    data = Interactions(cfg)
    model = BPR(cfg, data.tags).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg["lr"])
    loader = MpDeviceLoader(
        DataLoader(data, batch_size=cfg["batch_size"], shuffle=True, drop_last=True), device)
    meter = Meter()
    step, start = 0, time.time()
    for epoch in range(cfg["epochs"]):
        for u, i, j in loader:
            diff, reg = model(u, i, j)
            loss = -F.logsigmoid(diff).mean() + cfg["reg"] * reg.mean()
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            meter.update(loss=loss, auc=(diff > 0).float().mean())
            step += 1
            if step % cfg["log_every"] == 0:
                xm.mark_step()
                xm.master_print(f"[{epoch}:{step}] {meter.summary()}")
    xm.master_print(f"{step} steps in {time.time() - start:.1f}s")
    return model


if __name__ == "__main__":
    train(config)
