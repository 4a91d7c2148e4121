import torch
from torch import nn
import torch.nn.functional as F
import torch_xla as txla
import torch_xla.core.xla_model as xm


class VectorQuantizer(nn.Module):
    """Nearest-neighbour codebook, trained by gradient (no EMA)."""

    def __init__(self, n_codes, dim, beta):
        super().__init__()
        self.codebook = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1.0 / n_codes, 1.0 / n_codes)
        self.beta = beta

    def forward(self, z):
        b, t, d = z.shape
        flat = z.reshape(-1, d)
        w = self.codebook.weight
        dist = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ w.t()
            + w.pow(2).sum(1)
        )
        idx = dist.argmin(dim=1)
        q = self.codebook(idx).view(b, t, d)
        codebook_loss = F.mse_loss(q, z.detach())
        commitment_loss = F.mse_loss(q, z)
        q_st = z + (q - z).detach()
        return q_st, codebook_loss + self.beta * commitment_loss, idx


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv1d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return x + self.c2(F.relu(self.c1(F.relu(x))))


class VQAutoencoder(nn.Module):
    def __init__(self, ch=8, codes=24, beta=0.25):
        super().__init__()
        self.down = nn.Conv1d(1, ch, 4, stride=2, padding=1)
        self.enc = ResBlock(ch)
        self.vq = VectorQuantizer(codes, ch, beta)
        self.dec = ResBlock(ch)
        self.up = nn.ConvTranspose1d(ch, 1, 4, stride=2, padding=1)

    def forward(self, x):
        h = self.enc(self.down(x))
        q, vq_loss, idx = self.vq(h.transpose(1, 2))
        y = self.up(self.dec(q.transpose(1, 2)))
        return y, vq_loss, idx


def waves(n, length):
    t = torch.linspace(0, 6.28, length)
    freq = torch.rand(n, 1) * 4 + 1
    phase = torch.rand(n, 1) * 6.28
    return torch.sin(freq * t + phase).unsqueeze(1)


def train_step(model, opt, x):
    opt.zero_grad(set_to_none=True)
    y, vq_loss, idx = model(x)
    rec = F.l1_loss(y, x)
    (rec + vq_loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return rec.detach(), vq_loss.detach()


def main():
    torch.manual_seed(3)
    dev = txla.device()
    model = VQAutoencoder().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    txla.sync()
    for it in range(4):
        x = waves(6, 32).to(dev)
        rec, vq = train_step(model, opt, x)
        xm.mark_step()
        print(it, round(rec.item(), 4), round(vq.item(), 4))


if __name__ == "__main__":
    main()
