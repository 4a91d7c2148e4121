"""ProdLDA over parliamentary speeches (bag of words)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


@dataclass
class Config:
    vocab: int = 60
    topics: int = 6
    hidden: int = 20
    alpha: float = 0.3
    lr: float = 2e-3
    batch: int = 10
    warmup: int = 8
    steps: int = 12


class InferenceNet(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.fc1 = nn.Linear(cfg.vocab, cfg.hidden)
        self.fc2 = nn.Linear(cfg.hidden, cfg.hidden)
        self.drop = nn.Dropout(0.2)
        self.mean = nn.Linear(cfg.hidden, cfg.topics)
        self.mean_bn = nn.BatchNorm1d(cfg.topics, affine=False)
        self.logvar = nn.Linear(cfg.hidden, cfg.topics)
        self.logvar_bn = nn.BatchNorm1d(cfg.topics, affine=False)

    def forward(self, bow):
        h = F.softplus(self.fc1(torch.log1p(bow)))
        h = self.drop(F.softplus(self.fc2(h)))
        return self.mean_bn(self.mean(h)), self.logvar_bn(self.logvar(h))


class ProdLDA(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.encoder = InferenceNet(cfg)
        self.beta = nn.Linear(cfg.topics, cfg.vocab, bias=False)
        self.beta_bn = nn.BatchNorm1d(cfg.vocab, affine=False)
        k, a = cfg.topics, cfg.alpha
        self.register_buffer("prior_var", torch.full((k,), (1 - 2 / k) / a + 1 / (k * a)))

    def forward(self, bow):
        mu, logvar = self.encoder(bow)
        eps = torch.randn_like(mu)
        theta = F.softmax(mu + eps * (0.5 * logvar).exp(), dim=-1)
        logp = F.log_softmax(self.beta_bn(self.beta(theta)), dim=-1)
        recon = -(bow * logp).sum(-1)
        var = logvar.exp()
        kl = 0.5 * (var / self.prior_var + mu.pow(2) / self.prior_var - 1 + self.prior_var.log() - logvar).sum(-1)
        return recon, kl


class Annealing:

    def __init__(self, warmup):
        self.warmup = warmup
        self.n = 0

    def step(self):
        self.n += 1

    @property
    def weight(self):
        return min(1.0, self.n / self.warmup)


def speeches(cfg, gen):
    topic = torch.rand(cfg.topics, cfg.vocab, generator=gen).pow(6)
    topic = topic / topic.sum(-1, keepdim=True)
    while True:
        mix = torch.rand(cfg.batch, cfg.topics, generator=gen).pow(4)
        mix = mix / mix.sum(-1, keepdim=True)
        words = torch.multinomial(mix @ topic, 80, replacement=True, generator=gen)
        yield torch.zeros(cfg.batch, cfg.vocab).scatter_add_(1, words, torch.ones(words.shape))


def run(cfg):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = ProdLDA(cfg).to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.95, 0.999))
    anneal = Annealing(cfg.warmup)
    stream = speeches(cfg, torch.Generator().manual_seed(1))
    for step in range(cfg.steps):
        bow = next(stream).to(device)
        recon, kl = model(bow)
        loss = (recon + anneal.weight * kl).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        anneal.step()
        xm.mark_step()
        print(f"{step:3d} elbo {-loss.item():9.3f} graphs {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    run(Config())
