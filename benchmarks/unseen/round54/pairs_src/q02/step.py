"""Two-tower retrieval with cross-batch negatives (product search)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_QUERY_TOKENS, N_ITEMS, N_BRANDS = 400, 300, 24
DIM, BATCH, QUEUE = 32, 16, 96


class QueryTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.tokens = nn.Embedding(N_QUERY_TOKENS, dim, padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(),
                                 nn.LayerNorm(2 * dim), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        pooled = (self.tokens(ids) * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return F.normalize(self.mlp(pooled), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS, dim)
        self.brand = nn.Embedding(N_BRANDS, dim)
        self.price = nn.Linear(1, dim)
        self.mlp = nn.Sequential(nn.Linear(3 * dim, 2 * dim), nn.ReLU(),
                                 nn.LayerNorm(2 * dim), nn.Linear(2 * dim, dim))

    def forward(self, item, brand, price):
        feats = [self.item(item), self.brand(brand), self.price(torch.log1p(price).unsqueeze(-1))]
        return F.normalize(self.mlp(torch.cat(feats, dim=-1)), dim=-1)


class NegativeQueue(nn.Module):
    """The item embeddings of the last batches, used as additional negatives."""

    def __init__(self, size, dim):
        super().__init__()
        self.register_buffer("emb", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("ids", torch.full((size,), -1, dtype=torch.long))
        self.size = size
        self.ptr = 0

    @torch.no_grad()
    def enqueue(self, emb, ids):
        n = emb.size(0)
        self.emb[self.ptr:self.ptr + n] = emb
        self.ids[self.ptr:self.ptr + n] = ids
        self.ptr = (self.ptr + n) % self.size


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = QueryTower(DIM)
        self.item = ItemTower(DIM)
        self.queue = NegativeQueue(QUEUE, DIM)
        self.log_temp = nn.Parameter(torch.tensor(2.6))

    def forward(self, batch):
        q = self.query(batch["query"])
        d = self.item(batch["item"], batch["brand"], batch["price"])
        cand = torch.cat([d, self.queue.emb.clone()], dim=0)
        cand_ids = torch.cat([batch["item"], self.queue.ids.clone()], dim=0)
        logits = self.log_temp.exp() * q @ cand.t()
        target = torch.arange(q.size(0), device=q.device)
        # the same product elsewhere among the candidates is no negative
        dup = batch["item"].unsqueeze(1) == cand_ids.unsqueeze(0)
        dup = dup & (torch.arange(cand.size(0), device=q.device) != target.unsqueeze(1))
        logits = logits.masked_fill(dup, -1e4)
        loss = F.cross_entropy(logits, target)
        self.queue.enqueue(d.detach(), batch["item"])
        return loss


def batches(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        query = torch.randint(1, N_QUERY_TOKENS, (BATCH, 8), generator=g)
        query[:, 5:] *= torch.randint(0, 2, (BATCH, 3), generator=g)
        yield {
            "query": query,
            "item": torch.randint(0, N_ITEMS, (BATCH,), generator=g),
            "brand": torch.randint(0, N_BRANDS, (BATCH,), generator=g),
            "price": torch.rand(BATCH, generator=g) * 90 + 1,
        }


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Retrieval().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for step, batch in enumerate(batches(6)):
        batch = {k: v.to(device) for k, v in batch.items()}
        opt.zero_grad(set_to_none=True)
        loss = model(batch)
        loss.backward()
        opt.step()
        with torch.no_grad():
            model.log_temp.clamp_(max=4.6)
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
