"""Prototype clustering of single-cell expression counts (swapped-view assignment)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla

CFG = dict(
    genes=64,
    cell_types=9,
    cells=1056,
    batch=48,
    width=48,
    dim=16,
    temperature=0.1,
    momentum=0.9,
    epochs=1,
    lr=2e-3,
    seed=5,
)


def simulate_counts(cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    programs = torch.rand(cfg["cell_types"], cfg["genes"], generator=g) ** 3 * 8
    kind = torch.randint(0, cfg["cell_types"], (cfg["cells"],), generator=g)
    depth = 0.5 + torch.rand(cfg["cells"], 1, generator=g)
    counts = torch.poisson(programs[kind] * depth, generator=g)
    return counts, kind


def normalise(counts, target=100.0):
    total = counts.sum(1, keepdim=True).clamp(min=1.0)
    return torch.log1p(counts / total * target)


class TwoViews:
    """Collate a batch into two noisy library-size-normalised views."""

    def __init__(self, drop=0.2):
        self.drop = drop

    def __call__(self, rows):
        counts = torch.stack([r[0] for r in rows])
        kind = torch.stack([r[1] for r in rows])
        views = []
        for _ in range(2):
            keep = (torch.rand_like(counts) > self.drop).float()
            views.append(normalise(counts * keep))
        return views[0], views[1], kind


class Encoder(nn.Module):
    def __init__(self, genes, width, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(genes, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, dim),
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class ProtoHead(nn.Module):
    """Learned cluster centres with a slow copy that gives the steadier assignment."""

    def __init__(self, k, dim, temperature, momentum):
        super().__init__()
        self.temperature = temperature
        self.momentum = momentum
        self.centres = nn.Parameter(F.normalize(torch.randn(k, dim), dim=-1))
        self.register_buffer("slow", self.centres.detach().clone())

    def refresh(self):
        self.slow = torch.lerp(self.slow, self.centres, 1.0 - self.momentum)

    def fast_logits(self, z):
        return z @ F.normalize(self.centres, dim=-1).t() / self.temperature

    def slow_logits(self, z):
        return z @ F.normalize(self.slow, dim=-1).t() / self.temperature


def sharpen(logits, rounds=2):
    q = F.softmax(logits, dim=-1)
    for _ in range(rounds):
        q = q / q.sum(0, keepdim=True)
        q = q / q.sum(1, keepdim=True)
    return q


def swapped_loss(head, za, zb):
    loss = 0.0
    for z_fast, z_slow in ((za, zb), (zb, za)):
        target = sharpen(head.slow_logits(z_slow))
        logp = F.log_softmax(head.fast_logits(z_fast), dim=-1)
        loss = loss - (target * logp).sum(-1).mean()
    return loss / 2


@torch.no_grad()
def purity(encoder, head, counts, kind, cfg):
    encoder.eval()
    z = encoder(normalise(counts))
    cluster = head.slow_logits(z).argmax(-1).cpu()
    encoder.train()
    table = torch.zeros(head.centres.size(0), cfg["cell_types"])
    table.index_put_((cluster, kind), torch.ones(len(kind)), accumulate=True)
    return (table.max(1).values.sum() / len(kind)).item()


def main(cfg=CFG):
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    counts, kind = simulate_counts(cfg)
    loader = DataLoader(
        TensorDataset(counts, kind), batch_size=cfg["batch"], shuffle=True,
        drop_last=True, collate_fn=TwoViews(),
    )
    encoder = Encoder(cfg["genes"], cfg["width"], cfg["dim"]).to(device)
    head = ProtoHead(12, cfg["dim"], cfg["temperature"], cfg["momentum"]).to(device)
    params = list(encoder.parameters()) + list(head.parameters())
    optimizer = torch.optim.AdamW(params, lr=cfg["lr"], weight_decay=1e-3)

    for epoch in range(cfg["epochs"]):
        running = torch.zeros((), device=device)
        for a, b, _ in loader:
            a, b = a.to(device), b.to(device)
            head.refresh()
            loss = swapped_loss(head, encoder(a), encoder(b))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
            torch_xla.sync()
        score = purity(encoder, head, counts[:256].to(device), kind[:256], cfg)
        print(f"epoch {epoch}  loss {running.item() / len(loader):.4f}  purity {score:.3f}")


if __name__ == "__main__":
    main()
