# tiny VQ-VAE on 1-d "motion" clips
import argparse
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Quantizer(nn.Module):
    def __init__(self, codes, dim, beta=0.25):
        super().__init__()
        self.codes = codes
        self.beta = beta
        self.embed = nn.Embedding(codes, dim)
        self.embed.weight.data.uniform_(-1.0 / codes, 1.0 / codes)

    def forward(self, z):
        # z: [N, T, D]
        flat = z.reshape(-1, z.size(-1))
        dist = (flat.pow(2).sum(1, keepdim=True)
                - 2 * flat @ self.embed.weight.t()
                + self.embed.weight.pow(2).sum(1))
        idx = dist.argmin(1)
        q = self.embed(idx).view_as(z)
        codebook = F.mse_loss(q, z.detach())
        commit = F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return q, codebook + self.beta * commit, idx


class ResUnit(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv1d(ch, ch, 3, padding=1)
        self.b = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class MotionVQ(nn.Module):
    def __init__(self, joints=6, width=24, codes=16):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(joints, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(width, width, 4, stride=2, padding=1),
            ResUnit(width),
        )
        self.vq = Quantizer(codes, width)
        self.dec = nn.Sequential(
            ResUnit(width),
            nn.ConvTranspose1d(width, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(width, joints, 4, stride=2, padding=1),
        )

    def forward(self, x):
        z = self.enc(x).transpose(1, 2)
        q, vq_loss, idx = self.vq(z)
        return self.dec(q.transpose(1, 2)), vq_loss, idx


def clips(n, joints, length):
    t = torch.linspace(0, 6.28, length)
    phase = torch.rand(n, joints, 1) * 6.28
    freq = torch.randint(1, 4, (n, joints, 1)).float()
    return torch.sin(freq * t + phase)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--steps', type=int, default=5)
    ap.add_argument('--bs', type=int, default=8)
    ap.add_argument('--lr', type=float, default=2e-3)
    args, _ = ap.parse_known_args()

    torch.manual_seed(11)
    dev = xm.xla_device()
    net = MotionVQ().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, betas=(0.9, 0.99))
    xm.mark_step()

    for it in range(args.steps):
        x = clips(args.bs, 6, 32).to(dev)
        opt.zero_grad()
        recon, vq_loss, idx = net(x)
        rec_loss = F.smooth_l1_loss(recon, x)
        loss = rec_loss + vq_loss
        loss.backward()
        opt.step()
        used = F.one_hot(idx, net.vq.codes).sum(0).gt(0).sum()
        xm.mark_step()
        print(it, 'rec', round(rec_loss.item(), 4), 'codes', used.item())


if __name__ == '__main__':
    main()
