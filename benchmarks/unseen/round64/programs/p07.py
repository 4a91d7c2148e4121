"""Document classifier: a chunk encoder, then a GRU cell over the chunks of each document."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, CHUNK, CLASSES = 200, 16, 3
MAX_CHUNKS = 16


class Reports(Dataset):
    """Token ids of long documents; each class has its own token distribution."""

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        topics = rng.dirichlet(np.full(VOCAB - 1, 0.1), size=CLASSES)
        self.docs = []
        for _ in range(n):
            y = rng.randint(CLASSES)
            length = int(np.clip(rng.lognormal(4.3, 0.8), CHUNK, CHUNK * MAX_CHUNKS))
            self.docs.append((1 + rng.choice(VOCAB - 1, size=length, p=topics[y]), y))

    def __len__(self):
        return len(self.docs)

    def __getitem__(self, i):
        return self.docs[i]


def to_chunks(tokens):
    n = -(-len(tokens) // CHUNK)
    out = np.zeros(n * CHUNK, dtype=np.int64)
    out[:len(tokens)] = tokens
    return torch.from_numpy(out).view(n, CHUNK)


def collate(batch):
    ids = torch.zeros(len(batch), MAX_CHUNKS, CHUNK, dtype=torch.long)
    n_chunks = torch.zeros(len(batch), dtype=torch.long)
    for i, (tokens, _) in enumerate(batch):
        chunks = to_chunks(tokens)
        ids[i, :len(chunks)] = chunks
        n_chunks[i] = len(chunks)
    labels = torch.tensor([y for _, y in batch])
    return ids, n_chunks, labels


class ChunkEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.pos = nn.Parameter(0.02 * torch.randn(CHUNK, dim))
        self.score = nn.Linear(dim, 1)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        att = self.score(torch.tanh(x)).squeeze(-1)
        att = att.masked_fill(ids == 0, -1e4).softmax(-1)
        return (att.unsqueeze(-1) * x).sum(1)


class HierarchicalClassifier(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.encoder = ChunkEncoder(dim)
        self.cell = nn.GRUCell(dim, dim)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(dim, CLASSES)
        self.dim = dim

    def forward(self, ids, n_chunks):
        state = torch.zeros(ids.size(0), self.dim, device=ids.device)
        lengths = n_chunks.to(ids.device).unsqueeze(1)
        for c in range(int(n_chunks.max())):
            new_state = self.cell(self.encoder(ids[:, c]), state)
            state = torch.where(lengths > c, new_state, state)
        return self.head(self.drop(state))


def build_optimizer(model, lr, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "tok" in name else decay).append(p)
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)


def warmup_linear(step, warm, total):
    if step < warm:
        return (step + 1) / warm
    return max(0.05, (total - step) / (total - warm))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=26)
    ap.add_argument("--batch-size", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--log-every", type=int, default=8)
    args = ap.parse_args()

    torch.manual_seed(29)
    device = torch_xla.device()
    loader = DataLoader(Reports(256, seed=29), batch_size=args.batch_size, shuffle=True,
                        collate_fn=collate, drop_last=True)
    model = HierarchicalClassifier().to(device)
    opt = build_optimizer(model, args.lr, 0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: warmup_linear(s, 5, args.steps))

    correct = torch.zeros((), device=device)
    seen = 0
    for step, (ids, n_chunks, labels) in enumerate(loader):
        if step == args.steps:
            break
        ids, labels = ids.to(device), labels.to(device)
        logits = model(ids, n_chunks)
        loss = F.cross_entropy(logits, labels)

        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        correct += (logits.argmax(1) == labels).sum()
        seen += labels.numel()
        xm.mark_step()

        if (step + 1) % args.log_every == 0:
            print(f"step {step + 1:3d} loss {loss.item():.4f} acc {correct.item() / seen:.3f} "
                  f"lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
