import sys
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

WARMUP = 4


class VAE(nn.Module):
    def __init__(self, d=64, z=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 48), nn.ELU(), nn.Linear(48, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 48), nn.ELU(), nn.Linear(48, d))

    def forward(self, x, eps):
        mu, lv = self.enc(x).chunk(2, dim=-1)
        z = mu + eps * torch.exp(lv / 2)
        return self.dec(z), mu, lv


def kl(mu, lv):
    return 0.5 * (mu.square() + lv.exp() - 1 - lv).sum(-1).mean()


def main():
    torch.manual_seed(11)
    dev = xm.xla_device()
    net = VAE().to(dev)
    optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(1, 9):
        beta = min(1.0, step / WARMUP)
        if "--tensor-beta" in sys.argv:
            beta = torch.tensor([beta]).to(dev)[0]
        x = torch.rand(32, 64).to(dev)
        eps = torch.randn(32, 6).to(dev)
        rec, mu, lv = net(x, eps)
        r = F.binary_cross_entropy_with_logits(rec, x, reduction="none").sum(-1).mean()
        loss = r + beta * kl(mu, lv)
        optim.zero_grad()
        loss.backward()
        xm.optimizer_step(optim)
        xm.mark_step()
    print(loss.item())


main()
