"""Vector-quantised autoencoder for ECG beats (one lead, 48 samples a beat)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Quantizer(nn.Module):
    def __init__(self, codes=10, dim=6, beta=0.25):
        super().__init__()
        self.book = nn.Parameter(torch.randn(codes, dim))
        self.beta = beta

    def forward(self, z):
        # z: (batch, dim, time)
        flat = z.transpose(1, 2).reshape(-1, z.shape[1])
        dist = (
            flat.square().sum(1, keepdim=True)
            - 2.0 * flat @ self.book.t()
            + self.book.square().sum(1)
        )
        idx = dist.argmin(dim=1)
        q = self.book[idx]
        q = q.view(z.shape[0], z.shape[2], z.shape[1]).transpose(1, 2)
        codebook = F.mse_loss(q, z.detach())
        commit = F.mse_loss(z, q.detach())
        st = z + (q - z).detach()
        return st, codebook + self.beta * commit, idx


class BeatVQ(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.enc1 = nn.Conv1d(1, 8, 4, stride=2, padding=1)
        self.enc2 = nn.Conv1d(8, 8, 4, stride=2, padding=1)
        self.to_code = nn.Conv1d(8, dim, 1)
        self.quant = Quantizer(dim=dim)
        self.from_code = nn.Conv1d(dim, 8, 3, padding=1)
        self.dec1 = nn.ConvTranspose1d(8, 8, 4, stride=2, padding=1)
        self.dec2 = nn.ConvTranspose1d(8, 1, 4, stride=2, padding=1)

    def forward(self, x):
        h = F.elu(self.enc1(x))
        h = F.elu(self.enc2(h))
        q, vq_loss, idx = self.quant(self.to_code(h))
        h = F.elu(self.from_code(q))
        h = F.elu(self.dec1(h))
        return self.dec2(h), vq_loss, idx


def spectral(x):
    d1 = x[..., 1:] - x[..., :-1]
    d2 = d1[..., 1:] - d1[..., :-1]
    return d1, d2


def recon_loss(y, x):
    loss = F.smooth_l1_loss(y, x)
    for a, b in zip(spectral(y), spectral(x)):
        loss = loss + 0.1 * (a - b).abs().mean()
    return loss


def perplexity(idx, codes):
    p = F.one_hot(idx, codes).float().mean(0)
    return torch.exp(-(p * torch.log(p + 1e-10)).sum())


def train_step(net, opt, x):
    opt.zero_grad()
    y, vq_loss, idx = net(x)
    loss = recon_loss(y, x) + vq_loss
    loss.backward()
    opt.step()
    return loss, perplexity(idx, net.quant.book.shape[0])


def make_optimizer(net):
    return torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01)


def live_tensors(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        out += [p, p.grad]
    for p in net.parameters():
        state = opt.state[p]
        out += [state["exp_avg"], state["exp_avg_sq"]]
    return out


def main(path):
    torch.manual_seed(15)
    dev = xm.xla_device()
    net = BeatVQ().to(dev)
    opt = make_optimizer(net)
    for it in range(4):
        x = torch.randn(6, 1, 48).to(dev)
        loss, ppl = train_step(net, opt, x)
        if it == 3:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(net, opt, [loss, ppl]))
            with open(path, "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item(), ppl.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "a.hlo"))
