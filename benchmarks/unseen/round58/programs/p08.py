"""Sequential recommendation with contrastive learning (CL4SRec style): next-item
loss on the full history plus InfoNCE between two views of every user."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 4
N_ITEMS, N_CLUSTERS = 120, 8
MAX_LEN, CROP = 32, 20
PAD, MASK = 0, N_ITEMS + 1
STEPS = 44
BATCH = 16


def simulate_users(n, rng):
    """Users drift between clusters of items; popular items come up more often."""
    cluster_of = rng.integers(0, N_CLUSTERS, N_ITEMS)
    pop = rng.zipf(1.6, N_ITEMS).clip(max=40).astype(float)
    histories = np.zeros((n, MAX_LEN + 1), dtype=np.int64)
    for u in range(n):
        c = rng.integers(N_CLUSTERS)
        length = rng.integers(MAX_LEN // 2, MAX_LEN + 2)
        seq = []
        for _ in range(length):
            if rng.random() < 0.12:
                c = (c + 1) % N_CLUSTERS
            w = pop * (cluster_of == c) + 1e-3
            seq.append(1 + rng.choice(N_ITEMS, p=w / w.sum()))
        histories[u, -length:] = seq
    return torch.from_numpy(histories)


class SASRec(nn.Module):
    def __init__(self, dim=32, heads=2, layers=1, drop=0.1):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS + 2, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, dim)
        self.drop = nn.Dropout(drop)
        self.blocks = nn.ModuleList([
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, drop, "gelu", batch_first=True,
                                       norm_first=True) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 16))

    def forward(self, seq):
        n = seq.shape[1]
        where = torch.arange(MAX_LEN - n, MAX_LEN, device=seq.device)
        x = self.drop(self.item(seq) + self.pos(where))
        causal = torch.triu(torch.full((n, n), -1e9, device=seq.device), 1)
        for block in self.blocks:
            x = block(x, src_mask=causal)
        return self.norm(x)

    def embed_user(self, seq):
        h = self(seq)
        m = (seq != PAD).unsqueeze(-1).float()
        return F.normalize(self.proj((h * m).sum(1) / m.sum(1).clamp(min=1)), dim=-1)


class ViewMaker:
    """Item crop followed by random item masking, as in CL4SRec."""

    def __init__(self, rng, mask_prob=0.2):
        self.rng, self.mask_prob = rng, mask_prob

    def crop(self, seq):
        start = int(self.rng.integers(0, seq.shape[1] - CROP + 1))
        return seq[:, start:start + CROP]

    def mask(self, seq):
        hide = torch.rand(seq.shape, device=seq.device) < self.mask_prob
        return torch.where(hide & (seq != PAD), torch.full_like(seq, MASK), seq)

    def __call__(self, seq):
        return self.mask(self.crop(seq))


def next_item_loss(model, seq, target):
    h = model(seq)
    logits = h @ model.item.weight[:N_ITEMS + 1].t()
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)


def info_nce(a, b, temperature=0.2):
    logits = a @ b.t() / temperature
    gold = torch.arange(len(a), device=a.device)
    return 0.5 * (F.cross_entropy(logits, gold) + F.cross_entropy(logits.t(), gold))


@torch.no_grad()
def hit_rate(model, users, device, k=10):
    model.eval()
    hits = torch.zeros((), device=device)
    for i in range(0, len(users), BATCH):
        seq = users[i:i + BATCH].to(device)
        scores = model(seq[:, :-1])[:, -1] @ model.item.weight[:N_ITEMS + 1].t()
        top = scores.topk(k, -1).indices
        hits += (top == seq[:, -1:]).any(-1).sum()
        torch_xla.sync()
    model.train()
    return hits.item() / len(users)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    users = simulate_users(320, rng)
    held_out, users = users[:64], users[64:]
    model = SASRec().to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    views = ViewMaker(rng)

    cursor, order = 0, rng.permutation(len(users))
    for step in range(1, STEPS + 1):
        if cursor + BATCH > len(order):
            cursor, order = 0, rng.permutation(len(users))
        batch = users[order[cursor:cursor + BATCH]].to(device)
        cursor += BATCH
        history, target = batch[:, :-1], batch[:, 1:]

        rec = next_item_loss(model, history, target)
        cl = info_nce(model.embed_user(views(history)), model.embed_user(views(history)))
        loss = rec + 0.1 * cl
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()

        if step % 22 == 0:
            print(f"step {step} rec {rec.item():.3f} cl {cl.item():.3f} "
                  f"HR@10 {hit_rate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
