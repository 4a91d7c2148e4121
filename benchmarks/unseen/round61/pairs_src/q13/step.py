"""Sequence VAE over SMILES strings with a property regressor on the latent."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = "_CNOSFc1n2=#()o[]H+-"
SMILES = [
    "CCO", "c1ccccc1", "CC(=O)O", "CCN(CC)CC", "C1CCCCC1", "CC#N", "COC(=O)C",
    "c1ccncc1", "CC(C)O", "OCC(O)CO", "CSC", "FC(F)F", "NCCO", "CC(N)=O",
    "C=CC=C", "O=C1CCCC1", "CCS", "c1cc[nH]c1", "OC1CCCCC1", "CC(C)(C)O",
]


@dataclass
class Config:
    max_len: int = 16
    emb: int = 12
    hidden: int = 24
    latent: int = 8
    batch_size: int = 5
    epochs: int = 4
    lr: float = 3e-3
    anneal_epochs: int = 2
    property_from_epoch: int = 2
    property_weight: float = 0.25
    clip: float = 1.0


class MoleculeVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(len(VOCAB), cfg.emb)
        self.enc = nn.Conv1d(cfg.emb, cfg.hidden, 5, padding=2)
        self.to_stats = nn.Linear(cfg.hidden * 2, 2 * cfg.latent)
        self.from_latent = nn.Linear(cfg.latent, cfg.hidden * cfg.max_len)
        self.dec = nn.Conv1d(cfg.hidden, cfg.hidden, 5, padding=2)
        self.to_tokens = nn.Conv1d(cfg.hidden, len(VOCAB), 1)
        self.prop = nn.Sequential(nn.Linear(cfg.latent, 16), nn.SiLU(), nn.Linear(16, 1))

    def encode(self, tokens):
        h = F.relu(self.enc(self.embed(tokens).transpose(1, 2)))
        h = torch.cat([h.mean(dim=2), h.amax(dim=2)], dim=1)
        return self.to_stats(h).chunk(2, dim=1)

    def decode(self, z):
        h = F.relu(self.from_latent(z)).view(-1, self.cfg.hidden, self.cfg.max_len)
        return self.to_tokens(F.relu(self.dec(h)) + h)

    def forward(self, tokens):
        mu, logvar = self.encode(tokens)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


def encode_smiles(max_len):
    rows = [[VOCAB.index(c) for c in s] + [0] * (max_len - len(s)) for s in SMILES]
    tokens = torch.tensor(rows)
    hetero = torch.tensor([[sum(c in "NOSFno" for c in s) / len(s)] for s in SMILES])
    return tokens, hetero


def compute_loss(model, batch, epoch, beta, cfg):
    tokens, target = batch
    logits, mu, logvar = model(tokens)
    rec = F.cross_entropy(logits, tokens)
    kl = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
    loss = rec + beta * kl
    if epoch >= cfg.property_from_epoch:
        loss = loss + cfg.property_weight * F.mse_loss(model.prop(mu), target)
    return loss


def main():
    cfg = Config()
    torch.manual_seed(3)
    device = torch_xla.device()
    model = MoleculeVAE(cfg).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    tokens, target = encode_smiles(cfg.max_len)
    steps_per_epoch = len(tokens) // cfg.batch_size
    anneal_steps = cfg.anneal_epochs * steps_per_epoch

    step = 0
    for epoch in range(cfg.epochs):
        order = torch.randperm(len(tokens))
        for i in range(steps_per_epoch):
            idx = order[i * cfg.batch_size:(i + 1) * cfg.batch_size]
            batch = tokens[idx].to(device), target[idx].to(device)
            beta = min(1.0, (step + 1) / (anneal_steps + 1))
            loss = compute_loss(model, batch, epoch, beta, cfg)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            optimizer.step()
            torch_xla.sync()
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            step += 1


if __name__ == "__main__":
    main()
