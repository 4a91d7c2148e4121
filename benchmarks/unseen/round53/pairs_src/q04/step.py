"""Mult-VAE for implicit-feedback recommendation, trained on XLA."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class MultVAE(nn.Module):

    def __init__(self, n_items, hidden=64, mid=48, latent=16, dropout=0.5):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.enc1 = nn.Linear(n_items, hidden)
        self.enc_ln = nn.LayerNorm(hidden)
        self.enc2 = nn.Linear(hidden, mid)
        self.stats = nn.Linear(mid, 2 * latent)
        self.dec1 = nn.Linear(latent, mid)
        self.dec_ln = nn.LayerNorm(mid)
        self.dec2 = nn.Linear(mid, hidden)
        self.out = nn.Linear(hidden, n_items)

    def encode(self, x):
        h = self.drop(F.normalize(x, dim=1))
        h = torch.tanh(self.enc_ln(self.enc1(h)))
        h = torch.tanh(self.enc2(h))
        return self.stats(h).chunk(2, dim=1)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        h = torch.tanh(self.dec_ln(self.dec1(z)))
        h = torch.tanh(self.dec2(h))
        return self.out(h), mu, logvar


def loss_fn(logits, x, mu, logvar, anneal):
    nll = -(F.log_softmax(logits, dim=1) * x).sum(dim=1).mean()
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return nll + anneal * kld, nll, kld


def main(n_items=400, users=32, total_anneal_steps=6, anneal_cap=1.0, steps=9):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MultVAE(n_items).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-2)
    torch_xla.sync()
    model.train()
    update_count = 0
    for step in range(steps):
        x = (torch.rand(users, n_items) < 0.05).float().to(device)
        anneal = min(anneal_cap, update_count / total_anneal_steps)
        opt.zero_grad()
        logits, mu, logvar = model(x)
        loss, nll, kld = loss_fn(logits, x, mu, logvar, anneal)
        loss.backward()
        opt.step()
        update_count += 1
        torch_xla.sync()
        print(step, loss.item(), nll.item(), kld.item())


if __name__ == '__main__':
    main()
