"""Discrete tokens for three-component seismograms (VQ autoencoder), one training step."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class WaveEncoder(nn.Module):
    def __init__(self, chans=3, width=12, dim=8):
        super().__init__()
        self.down1 = nn.Conv1d(chans, width, 5, stride=2, padding=2)
        self.down2 = nn.Conv1d(width, dim, 5, stride=2, padding=2)

    def forward(self, x):
        h = F.gelu(self.down1(x))
        return self.down2(h)


class WaveDecoder(nn.Module):
    def __init__(self, chans=3, width=12, dim=8):
        super().__init__()
        self.up1 = nn.ConvTranspose1d(dim, width, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose1d(width, chans, 4, stride=2, padding=1)

    def forward(self, q):
        h = F.gelu(self.up1(q))
        return self.up2(h)


class Quantizer(nn.Module):
    def __init__(self, codes=24, dim=8, beta=0.25):
        super().__init__()
        self.beta = beta
        self.book = nn.Parameter(torch.randn(codes, dim) * 0.3)

    def forward(self, z):
        b, d, t = z.shape
        flat = z.permute(0, 2, 1).reshape(-1, d)
        dist = (
            flat.pow(2).sum(1, keepdim=True)
            - 2.0 * flat @ self.book.t()
            + self.book.pow(2).sum(1)
        )
        idx = dist.argmin(dim=1)
        q = self.book[idx].view(b, t, d).permute(0, 2, 1)
        book_loss = F.mse_loss(q, z.detach())
        commit = F.mse_loss(z, q.detach())
        usage = F.one_hot(idx, self.book.shape[0]).float().mean(0)
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-8)).sum())
        q = z + (q - z).detach()
        return q, book_loss + self.beta * commit, perplexity


class SeismicVQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = WaveEncoder()
        self.vq = Quantizer()
        self.dec = WaveDecoder()

    def forward(self, x):
        q, vq_loss, perplexity = self.vq(self.enc(x))
        return self.dec(q), vq_loss, perplexity


def main(out):
    torch.manual_seed(5)
    dev = torch_xla.device()
    model = SeismicVQ().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    waves = torch.randn(6, 4, 3, 64)
    for step in range(3):
        x = waves[step].to(dev)
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        rec, vq_loss, perplexity = model(x)
        spec_rec = (rec[..., 1:] - rec[..., :-1]).abs().mean(-1)
        spec_ref = (x[..., 1:] - x[..., :-1]).abs().mean(-1)
        loss = F.smooth_l1_loss(rec, x) + 0.1 * F.l1_loss(spec_rec, spec_ref) + vq_loss
        loss.backward()
        opt.step()
        loss, perplexity = loss.detach(), perplexity.detach()
        live = [loss, perplexity]
        for p in model.parameters():
            st = opt.state[p]
            live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
        if step == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), perplexity.item())


if __name__ == "__main__":
    main(sys.argv[1])
