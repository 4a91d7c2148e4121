"""Two-tower retrieval, reorganised: shared head, config object, loss in its own function."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    users: int = 50
    items: int = 40
    genres: int = 7
    width: int = 8
    hidden: int = 16
    out: int = 8
    batch: int = 16
    lr: float = 0.05


class Head(nn.Module):
    def __init__(self, n_in, cfg):
        super().__init__()
        self.hidden = nn.Linear(n_in, cfg.hidden)
        self.project = nn.Linear(cfg.hidden, cfg.out)

    def forward(self, x):
        z = self.project(self.hidden(x).tanh())
        return z / z.norm(dim=-1, keepdim=True)


class RetrievalModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.genre_table = nn.Embedding(cfg.genres, cfg.width)
        self.item_table = nn.Embedding(cfg.items, cfg.width)
        self.item_head = Head(cfg.width, cfg)
        self.age_proj = nn.Linear(1, cfg.width)
        self.user_table = nn.Embedding(cfg.users, cfg.width)
        self.user_head = Head(2 * cfg.width, cfg)

    def embed_items(self, item, genre):
        return self.item_head(torch.add(self.genre_table(genre), self.item_table(item)))

    def embed_users(self, user, age):
        dense = self.age_proj(age)
        sparse = self.user_table(user)
        return self.user_head(torch.cat((sparse, dense), -1))


def scores(model, feats):
    scale = model.log_scale.exp()
    items = model.embed_items(feats["item"], feats["genre"])
    users = model.embed_users(feats["user"], feats["age"])
    return scale * (users @ items.transpose(0, 1)) - feats["log_q"]


def in_batch_softmax(s, target):
    hits = torch.eq(target, s.argmax(-1))
    logp = F.log_softmax(s, dim=-1)
    return F.nll_loss(logp, target), hits.float().mean()


def sample(cfg, gen):
    out = {"user": torch.randint(0, cfg.users, (cfg.batch,), generator=gen)}
    out["age"] = torch.rand(cfg.batch, 1, generator=gen)
    out["item"] = torch.randint(0, cfg.items, (cfg.batch,), generator=gen)
    out["genre"] = torch.randint(0, cfg.genres, (cfg.batch,), generator=gen)
    out["log_q"] = torch.log(torch.rand(cfg.batch, generator=gen) * 0.1 + 0.01)
    return out


def run(cfg, steps=3):
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    dev = torch_xla.device()
    model = RetrievalModel(cfg).to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    diagonal = torch.arange(cfg.batch).to(dev)
    xm.mark_step()
    for i in range(steps):
        feats = {k: v.to(dev) for k, v in sorted(sample(cfg, gen).items())}
        s = scores(model, feats)
        loss, recall = in_batch_softmax(s, diagonal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(f"{i}: loss={loss.item():.6f} recall@1={recall.item():.3f}")
    return model


if __name__ == "__main__":
    model = run(Config())
