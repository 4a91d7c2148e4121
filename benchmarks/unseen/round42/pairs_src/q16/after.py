"""Vector-quantised codec for short sensor windows (accelerometer, 3 axes), residual VQ with 2 stages."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, C, L, D, CODES = 4, 3, 16, 8, 12
BETA = 0.25


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["m"] = torch.zeros_like(p)
                m = st["m"]
                if group["weight_decay"]:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                upd = (m * b1 + p.grad * (1 - b1)).sign_()
                p.add_(upd, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(CODES, D) * 0.3)

    def forward(self, z):
        d = (z.pow(2).sum(-1, keepdim=True)
             - 2 * z @ self.codes.t()
             + self.codes.pow(2).sum(-1))
        idx = d.argmin(-1)
        q = F.embedding(idx, self.codes)
        codebook = F.mse_loss(q.detach(), z)
        commit = F.mse_loss(z.detach(), q)
        usage = F.one_hot(idx, CODES).float().mean((0, 1))
        perplexity = torch.exp(-(usage * (usage + 1e-10).log()).sum())
        return z + (q - z).detach(), codebook + BETA * commit, perplexity


class ResidualVQ(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.stages = nn.ModuleList(Quantizer() for _ in range(n))

    def forward(self, z):
        out, res, loss, ppl = 0, z, 0, []
        for stage in self.stages:
            q, l, p = stage(res)
            out = out + q
            res = res - q.detach()
            loss = loss + l
            ppl.append(p)
        return out, loss, torch.stack(ppl)


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1 = nn.Conv1d(C, D, 4, stride=2, padding=1)
        self.e2 = nn.Conv1d(D, D, 3, padding=1)
        self.vq = ResidualVQ()
        self.d1 = nn.Conv1d(D, D, 3, padding=1)
        self.d2 = nn.ConvTranspose1d(D, C, 4, stride=2, padding=1)

    def forward(self, x):
        z = self.e2(F.gelu(self.e1(x), approximate="tanh")).transpose(1, 2)
        q, vq_loss, ppl = self.vq(z)
        y = self.d2(F.gelu(self.d1(q.transpose(1, 2)), approximate="tanh"))
        return y, vq_loss, ppl


def main(path, steps=3):
    dev = torch_xla.device()
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(42)
    model = Codec().to(dev)
    opt = Lion(model.parameters(), lr=3e-4, weight_decay=0.1)
    torch_xla.sync()
    for i in range(steps):
        x = torch.randn(B, C, L, generator=gen).cumsum(-1).mul(0.3).to(dev)
        opt.zero_grad(set_to_none=True)
        y, vq_loss, ppl = model(x)
        rec = F.smooth_l1_loss(y, x, beta=0.1)
        (rec + vq_loss).backward()
        opt.step()
        live = [rec.detach(), vq_loss.detach(), ppl.detach()]
        for p in model.parameters():
            live += [p, p.grad, opt.state[p]["m"]]
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, rec.item(), vq_loss.item(), ppl.tolist())


if __name__ == "__main__":
    main(sys.argv[1])
