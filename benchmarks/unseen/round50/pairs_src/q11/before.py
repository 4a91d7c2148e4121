"""VQ-VAE on single-lead ECG windows, one training step per batch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv1d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = self.c1(F.relu(x))
        h = self.c2(F.relu(h))
        return x + h


class Quantizer(nn.Module):
    def __init__(self, n_codes, dim, beta=0.25):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(n_codes, dim) * 0.3)
        self.beta = beta

    def forward(self, z):
        # z: [B, D, T]
        zt = z.permute(0, 2, 1)
        flat = zt.reshape(-1, zt.shape[-1])
        d = (flat.pow(2).sum(1, keepdim=True)
             - 2 * flat @ self.codes.t()
             + self.codes.pow(2).sum(1))
        idx = d.argmin(1)
        q = F.embedding(idx, self.codes).view_as(zt)
        codebook = F.mse_loss(q, zt.detach())
        commit = F.mse_loss(zt, q.detach())
        q = zt + (q - zt).detach()
        onehot = F.one_hot(idx, self.codes.shape[0]).float()
        usage = onehot.mean(0)
        perplexity = torch.exp(-(usage * (usage + 1e-10).log()).sum())
        return q.permute(0, 2, 1), codebook + self.beta * commit, perplexity


class EcgVQVAE(nn.Module):
    def __init__(self, hid=12, dim=8, n_codes=24):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(1, hid, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv1d(hid, hid, 4, stride=2, padding=1),
            Residual(hid), nn.ReLU(), nn.Conv1d(hid, dim, 1))
        self.vq = Quantizer(n_codes, dim)
        self.dec = nn.Sequential(
            nn.Conv1d(dim, hid, 3, padding=1),
            Residual(hid), nn.ReLU(),
            nn.ConvTranspose1d(hid, hid, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose1d(hid, 1, 4, stride=2, padding=1))

    def forward(self, x):
        z = self.enc(x)
        q, vq_loss, ppl = self.vq(z)
        return self.dec(q), vq_loss, ppl


def live_tensors(model, opt, extra):
    out = [p for p in model.parameters()]
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st)
                if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out + extra


def main(path):
    torch.manual_seed(0)
    dev = xm.xla_device()
    model = EcgVQVAE().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
    g = torch.Generator().manual_seed(1)
    for step in range(4):
        x = torch.randn(6, 1, 64, generator=g).cumsum(-1).mul(0.2).to(dev)
        xm.mark_step()
        recon, vq_loss, ppl = model(x)
        rec_loss = F.smooth_l1_loss(recon, x)
        loss = rec_loss + vq_loss
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 2:
            live = live_tensors(model, opt, [loss.detach(), ppl.detach()])
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item(), ppl.item())


if __name__ == "__main__":
    main(sys.argv[1])
