import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

LATENT = 8
VOCAB = 40
SEQ = 12
WARMUP = 4


class SentenceVAE(nn.Module):
    def __init__(self, emb=24, hid=32, latent=LATENT):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, emb)
        self.enc1 = nn.Linear(emb * SEQ, hid)
        self.enc2 = nn.Linear(hid, hid)
        self.mu = nn.Linear(hid, latent)
        self.logvar = nn.Linear(hid, latent)
        self.lift = nn.Linear(latent, hid)
        self.mix = nn.Linear(hid, SEQ * emb)
        self.out = nn.Linear(emb, VOCAB)
        self.emb = emb

    def encode(self, ids):
        h = self.tok(ids).flatten(1)
        h = torch.tanh(self.enc1(h))
        h = torch.tanh(self.enc2(h)) + h
        return self.mu(h), self.logvar(h).clamp(-8.0, 8.0)

    def decode(self, z):
        h = F.elu(self.lift(z))
        return self.out(self.mix(h).view(-1, SEQ, self.emb))

    def forward(self, ids):
        mu, logvar = self.encode(ids)
        eps = torch.randn_like(mu)
        z = mu + eps * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar


def kl_weight(step, warmup=WARMUP, floor=0.2):
    """Linear ramp from floor up to the full ELBO."""
    return min(1.0, floor + (1.0 - floor) * step / warmup)


def elbo(logits, ids, mu, logvar, beta):
    nll = F.cross_entropy(logits.transpose(1, 2), ids, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return nll + kl * beta, nll, kl


def corpus(n=96):
    g = torch.Generator().manual_seed(3)
    start = torch.randint(0, VOCAB, (n, 1), generator=g)
    stride = torch.randint(1, 5, (n, 1), generator=g)
    return (start + stride * torch.arange(SEQ)) % VOCAB


def train():
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(TensorDataset(corpus()), batch_size=8, shuffle=True, drop_last=True)
    loader = MpDeviceLoader(loader, device)
    model = SentenceVAE().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    step = 0
    hist = []
    for (ids,) in loader:
        logits, mu, logvar = model(ids)
        loss, nll, kl = elbo(logits, ids, mu, logvar, kl_weight(step))
        opt.zero_grad()
        loss.backward()
        opt.step()
        hist.append((nll.detach(), kl.detach()))
        step += 1
        if step == 9:
            break
    torch_xla.sync()
    for i, (nll, kl) in enumerate(hist):
        print(f"{i:02d} nll={nll.item():.3f} kl={kl.item():.3f} beta={kl_weight(i):.2f}")


if __name__ == "__main__":
    train()
