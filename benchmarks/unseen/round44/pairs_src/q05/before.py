"""VQ autoencoder for single-lead ECG windows.  1-d conv encoder, codebook of 16,
linear decoder, RMSprop with momentum."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CODES, DIM, WIN = 16, 6, 24


class Codebook(nn.Module):
    def __init__(self, codes, dim, beta):
        super().__init__()
        self.table = nn.Parameter(torch.randn(codes, dim) * 0.3)
        self.beta = beta

    def forward(self, z):
        flat = z.reshape(-1, z.size(-1))
        d = (flat.pow(2).sum(1, keepdim=True)
             - 2.0 * flat @ self.table.t()
             + self.table.pow(2).sum(1))
        idx = d.argmin(dim=1)
        q = F.embedding(idx, self.table).view_as(z)
        codebook_loss = F.mse_loss(q, z.detach())
        commit_loss = F.mse_loss(z, q.detach())
        st = z + (q - z).detach()
        usage = F.one_hot(idx, self.table.size(0)).float().mean(0)
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-10)).sum())
        return st, codebook_loss + self.beta * commit_loss, perplexity


class ECGVQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(1, 4, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(4, DIM, 3, stride=2, padding=1)
        self.vq = Codebook(CODES, DIM, beta=0.25)
        self.up1 = nn.Linear(DIM, 8)
        self.up2 = nn.Linear(8, 4)

    def forward(self, ecg):
        z = self.c2(F.leaky_relu(self.c1(ecg), 0.1)).transpose(1, 2)
        st, vq_loss, perp = self.vq(z)
        rec = self.up2(F.leaky_relu(self.up1(st), 0.1)).flatten(1)
        return rec, vq_loss, perp


def spectral_slope(x):
    return x[:, 1:] - x[:, :-1]


def criterion(rec, ecg, vq_loss):
    target = ecg.squeeze(1)
    l_wave = (rec - target).abs().mean()
    l_slope = F.mse_loss(spectral_slope(rec), spectral_slope(target))
    return l_wave + 0.5 * l_slope + vq_loss


def main(out):
    dev = torch_xla.device()
    torch.manual_seed(59)
    gen = torch.Generator().manual_seed(61)
    model = ECGVQ().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9)
    torch_xla.sync()
    for step in range(3):
        ecg = torch.randn(6, 1, WIN, generator=gen).to(dev)
        rec, vq_loss, perp = model(ecg)
        loss = criterion(rec, ecg, vq_loss)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 2:
            live = [loss, vq_loss, perp, rec]
            for p in model.parameters():
                st = opt.state[p]
                live += [p, p.grad, st["square_avg"], st["momentum_buffer"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), perp.item())


if __name__ == "__main__":
    main(sys.argv[1])
