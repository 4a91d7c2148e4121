"""CTR ranking model (deep & cross) over user history and context features."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONFIG = {
    "n_items": 200, "n_cats": 20, "n_ctx": 4, "dim": 16, "hist_len": 10,
    "hidden": (48, 24), "cross_layers": 2, "batch": 16,
    "lr": 2e-3, "weight_decay": 1e-2,
}


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x0, x):
        return x0 * self.linear(x) + x


class History(nn.Module):
    """The user's last clicks as one vector; id 0 is padding."""

    def __init__(self, items):
        super().__init__()
        self.items = items

    def forward(self, hist):
        mask = (hist > 0).to(self.items.weight.dtype).unsqueeze(-1)
        return (self.items(hist) * mask).sum(dim=1) / (mask.sum(dim=1) + 1e-6)


class Ranker(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["dim"]
        self.items = nn.Embedding(cfg["n_items"], d)
        self.cats = nn.Embedding(cfg["n_cats"], d)
        self.history = History(self.items)
        width = 3 * d + cfg["n_ctx"]
        self.cross = nn.ModuleList(CrossLayer(width) for _ in range(cfg["cross_layers"]))
        layers, prev = [], width
        for h in cfg["hidden"]:
            layers += [nn.Linear(prev, h), nn.LayerNorm(h), nn.ReLU()]
            prev = h
        self.deep = nn.Sequential(*layers)
        self.out = nn.Linear(width + prev, 1)

    def forward(self, item, cat, hist, ctx):
        x0 = torch.cat([self.items(item), self.cats(cat), self.history(hist), ctx], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


def build_optimizer(model, cfg):
    return torch.optim.AdamW(model.parameters(), lr=cfg["lr"],
                             weight_decay=cfg["weight_decay"])


def click_batch(gen, cfg):
    b = cfg["batch"]
    hist = torch.randint(1, cfg["n_items"], (b, cfg["hist_len"]), generator=gen)
    keep = torch.randint(1, cfg["hist_len"] + 1, (b, 1), generator=gen)
    hist = hist * (torch.arange(cfg["hist_len"]) < keep)
    return (torch.randint(1, cfg["n_items"], (b,), generator=gen),
            torch.randint(0, cfg["n_cats"], (b,), generator=gen),
            hist,
            torch.rand(b, cfg["n_ctx"], generator=gen),
            (torch.rand(b, generator=gen) < 0.2).float())


def main(cfg):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    device = torch_xla.device()
    model = Ranker(cfg).to(device)
    optimizer = build_optimizer(model, cfg)
    for step in range(4):
        item, cat, hist, ctx, click = (t.to(device) for t in click_batch(gen, cfg))
        loss = F.binary_cross_entropy_with_logits(model(item, cat, hist, ctx), click)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, f"{loss.item():.5f}")


if __name__ == "__main__":
    main(CONFIG)
