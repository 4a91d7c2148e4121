"""Two-tower retrieval (listeners x podcasts) with an in-batch sampled softmax,
popularity-corrected.  Embeddings and towers by Adagrad, gradients clipped."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

USERS, ITEMS, GENRES, DIM = 40, 60, 7, 8


class Tower(nn.Module):
    def __init__(self, vocab, extra):
        super().__init__()
        self.ids = nn.Embedding(vocab, DIM)
        self.side = nn.Linear(extra, DIM)
        self.proj = nn.Linear(2 * DIM, DIM)

    def forward(self, ids, side):
        h = torch.cat([self.ids(ids), F.silu(self.side(side))], dim=1)
        return F.normalize(self.proj(h), dim=1)


class Retriever(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = Tower(USERS, 3)
        self.item = Tower(ITEMS, GENRES)
        self.log_temp = nn.Parameter(torch.tensor(-1.6))

    def forward(self, batch):
        u = self.user(batch["user"], batch["user_side"])
        v = self.item(batch["item"], batch["item_side"])
        return u @ v.t() / self.log_temp.exp()


def in_batch_loss(logits, log_q, item_ids, weight):
    logits = logits - log_q[None, :]
    dup = item_ids[:, None] == item_ids[None, :]
    dup = dup & ~torch.eye(item_ids.numel(), dtype=torch.bool, device=logits.device)
    logits = logits.masked_fill(dup, -1e9)
    nll = torch.logsumexp(logits, dim=1) - logits.diagonal()
    return (nll * weight).sum() / weight.sum()


def make_batch(gen, dev, n=10):
    batch = {
        "user": torch.randint(0, USERS, (n,), generator=gen),
        "user_side": torch.randn(n, 3, generator=gen),
        "item": torch.randint(0, ITEMS, (n,), generator=gen),
        "item_side": (torch.rand(n, GENRES, generator=gen) < 0.3).float(),
        "log_q": torch.log(torch.rand(n, generator=gen) * 0.05 + 1e-3),
        "minutes": torch.rand(n, generator=gen) * 30.0,
    }
    return {k: v.to(dev) for k, v in batch.items()}


def train_step(model, opt, batch):
    opt.zero_grad()
    logits = model(batch)
    weight = torch.log1p(batch["minutes"])
    loss = in_batch_loss(logits, batch["log_q"], batch["item"], weight)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    opt.step()
    hit = (logits.argmax(dim=1) == torch.arange(logits.size(0), device=logits.device))
    return loss.detach(), norm, hit.float().mean()


def main(out):
    dev = torch_xla.device()
    torch.manual_seed(67)
    gen = torch.Generator().manual_seed(71)
    model = Retriever().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, lr_decay=1e-4,
                              initial_accumulator_value=0.1)
    for st in opt.state.values():
        st["sum"] = st["sum"].to(dev)
    torch_xla.sync()
    for step in range(3):
        batch = make_batch(gen, dev)
        loss, norm, hit = train_step(model, opt, batch)
        opt.zero_grad()
        if step == 2:
            live = [loss, norm, hit]
            for p in model.parameters():
                live += [p, opt.state[p]["sum"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), norm.item(), hit.item())


if __name__ == "__main__":
    main(sys.argv[1])
