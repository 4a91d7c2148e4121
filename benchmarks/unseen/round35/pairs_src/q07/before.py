"""VQ-VAE tokeniser for hand-motion windows (joint angles over time)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, JOINTS, FRAMES, CODE_DIM, CODES = 6, 9, 16, 8, 12
BETA = 0.25


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv1d(c, c, 3, padding=1)
        self.b = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.b(F.silu(self.a(F.silu(x))))


class VectorQuantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(CODES, CODE_DIM) * 0.3)

    def forward(self, z):
        flat = z.permute(0, 2, 1).reshape(-1, CODE_DIM)
        d = (flat.pow(2).sum(1, keepdim=True)
             - 2.0 * flat @ self.codebook.t()
             + self.codebook.pow(2).sum(1))
        idx = d.argmin(dim=1)
        q = F.embedding(idx, self.codebook)
        q = q.view(z.shape[0], -1, CODE_DIM).permute(0, 2, 1)
        loss = F.mse_loss(q, z.detach()) + BETA * F.mse_loss(z, q.detach())
        usage = F.one_hot(idx, CODES).float().mean(0)
        perplexity = torch.exp(-(usage * (usage + 1e-10).log()).sum())
        return z + (q - z).detach(), loss, perplexity


class MotionVQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc_in = nn.Conv1d(JOINTS, CODE_DIM, 4, stride=2, padding=1)
        self.enc_res = Res(CODE_DIM)
        self.vq = VectorQuantizer()
        self.dec_res = Res(CODE_DIM)
        self.dec_out = nn.ConvTranspose1d(CODE_DIM, JOINTS, 4, stride=2, padding=1)

    def forward(self, x):
        z = self.enc_res(self.enc_in(x))
        q, vq_loss, perp = self.vq(z)
        return self.dec_out(self.dec_res(q)), vq_loss, perp


def train_step(model, opt, x):
    rec, vq_loss, perp = model(x)
    pos = F.l1_loss(rec, x)
    vel = F.l1_loss(rec[..., 1:] - rec[..., :-1], x[..., 1:] - x[..., :-1])
    loss = pos + 0.5 * vel + vq_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach(), vq_loss.detach(), perp.detach()


def live_tensors(model, opt, logs):
    out = list(logs)
    for p in model.parameters():
        out += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_inf"]]
    return out


def run(steps, dump_at=None, path=None):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = MotionVQ().to(device)
    opt = torch.optim.Adamax(model.parameters(), lr=2e-3)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        x = torch.randn(B, JOINTS, FRAMES, generator=gen).cumsum(-1).mul(0.2).to(device)
        logs = train_step(model, opt, x)
        if step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, logs)))
        torch_xla.sync()
        hist.append([v.item() for v in logs])
    return hist


if __name__ == "__main__":
    for row in run(3, 2, sys.argv[1]):
        print(row)
