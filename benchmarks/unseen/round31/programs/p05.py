"""Query/product retrieval: two towers, contrastive loss with a cross-batch memory of past products."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

VOCAB = 300
Q_LEN, P_LEN = 6, 14
DIM = 24
BATCH = 12
MEMORY = 80
XBM_START = 3
STEPS = 24


class ClickLog(Dataset):
    """(query, clicked product, product id); both texts draw from the product's topic words."""

    def __init__(self, n, n_products=90):
        g = torch.Generator().manual_seed(21)
        topics = torch.randint(1, VOCAB, (n_products, 8), generator=g)
        self.pid = torch.randint(0, n_products, (n,), generator=g)
        pick_q = torch.randint(0, 8, (n, Q_LEN), generator=g)
        pick_p = torch.randint(0, 8, (n, P_LEN), generator=g)
        self.q = topics[self.pid].gather(1, pick_q)
        self.p = topics[self.pid].gather(1, pick_p)
        noise = torch.rand(self.p.shape, generator=g) < 0.2
        self.p[noise] = 0

    def __len__(self):
        return len(self.pid)

    def __getitem__(self, i):
        return self.q[i], self.p[i], self.pid[i]


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.gate = nn.Linear(DIM, 1)
        self.out = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, ids):
        h = self.emb(ids)
        score = self.gate(h).squeeze(-1).masked_fill(ids == 0, -1e4)
        pooled = torch.einsum("bl,bld->bd", score.softmax(-1), h)
        return F.normalize(self.out(pooled), dim=-1)


class XBM:
    def __init__(self, size, dim, device):
        self.K = size
        self.feats = torch.zeros(size, dim, device=device)
        self.ids = torch.full((size,), -1, dtype=torch.long, device=device)
        self.ptr = 0
        self.is_full = False

    def get(self):
        if self.is_full:
            return self.feats, self.ids
        return self.feats[:self.ptr], self.ids[:self.ptr]

    def enqueue_dequeue(self, feats, ids):
        n = len(ids)
        if self.ptr + n > self.K:
            self.feats[-n:] = feats
            self.ids[-n:] = ids
            self.ptr = 0
            self.is_full = True
        else:
            self.feats[self.ptr:self.ptr + n] = feats
            self.ids[self.ptr:self.ptr + n] = ids
            self.ptr += n


def info_nce(q, p, pid, mem_feats, mem_ids, tau):
    cand = torch.cat([p, mem_feats], dim=0)
    cand_ids = torch.cat([pid, mem_ids], dim=0)
    sim = q @ cand.t() / tau
    same = pid[:, None] == cand_ids[None, :]
    own = F.one_hot(torch.arange(len(pid), device=q.device), len(cand_ids)).bool()
    sim = sim.masked_fill(same & ~own, -1e4)
    return F.cross_entropy(sim, torch.arange(len(pid), device=q.device))


def temperature(step):
    return 0.2 - 0.13 * min(step, 20) / 20


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    q_tower, p_tower = Tower().to(device), Tower().to(device)
    params = list(q_tower.parameters()) + list(p_tower.parameters())
    opt = torch.optim.AdamW(params, lr=4e-3)
    memory = XBM(MEMORY, DIM, device)
    loader = DataLoader(ClickLog(BATCH * STEPS), batch_size=BATCH, shuffle=True, drop_last=True)

    for step, (q_ids, p_ids, pid) in enumerate(loader):
        q_ids, p_ids, pid = q_ids.to(device), p_ids.to(device), pid.to(device)
        q, p = q_tower(q_ids), p_tower(p_ids)
        tau = temperature(step)
        loss = info_nce(q, p, pid, p[:0], pid[:0], tau)
        if step >= XBM_START:
            mem_feats, mem_ids = memory.get()
            loss = loss + 0.5 * info_nce(q, p, pid, mem_feats, mem_ids, tau)
            memory.enqueue_dequeue(p.detach(), pid)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        torch_xla.sync()

        if step % 8 == 7:
            hit = (q @ p.t()).argmax(1).cpu() == torch.arange(BATCH)
            print(f"step {step + 1} loss {loss.item():.3f} tau {tau:.3f} in-batch hit {hit.float().mean():.2f}")


if __name__ == "__main__":
    main()
