"""Post-training weight quantisation with learned rounding (AdaRound) of a small
wake-word MLP, one layer at a time, on a handful of calibration frames."""
import copy

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GAMMA, ZETA = -0.1, 1.1


class LinearTempDecay:
    def __init__(self, t_max, rel_start_decay=0.2, start_b=20.0, end_b=2.0):
        self.t_max = t_max
        self.start_decay = rel_start_decay * t_max
        self.start_b, self.end_b = start_b, end_b

    def __call__(self, t):
        if t < self.start_decay:
            return self.start_b
        rel_t = (t - self.start_decay) / (self.t_max - self.start_decay)
        return self.end_b + (self.start_b - self.end_b) * max(0.0, 1 - rel_t)


class QuantLinear(nn.Module):
    def __init__(self, lin, n_bits):
        super().__init__()
        self.register_buffer("weight", lin.weight.detach().clone())
        self.register_buffer("bias", lin.bias.detach().clone())
        self.qmax = 2 ** (n_bits - 1) - 1
        scale = self.weight.abs().amax(1, keepdim=True) / self.qmax
        self.register_buffer("scale", scale.clamp(min=1e-6))
        rest = self.weight / self.scale - torch.floor(self.weight / self.scale)
        alpha = -torch.log((ZETA - GAMMA) / (rest - GAMMA) - 1)
        self.alpha = nn.Parameter(alpha)
        self.soft = True

    def h(self):
        return torch.clamp(torch.sigmoid(self.alpha) * (ZETA - GAMMA) + GAMMA, 0, 1)

    def quantised(self):
        up = self.h() if self.soft else (self.alpha >= 0).float()
        w = torch.floor(self.weight / self.scale) + up
        return torch.clamp(w, -self.qmax - 1, self.qmax) * self.scale

    def forward(self, x):
        return F.linear(x, self.quantised(), self.bias)


class RoundingLoss:
    def __init__(self, layer, iters, weight=0.01, warmup=0.1):
        self.layer, self.weight = layer, weight
        self.loss_start = iters * warmup
        self.temp_decay = LinearTempDecay(iters)

    def __call__(self, pred, tgt, t):
        rec = (pred - tgt).pow(2).sum(1).mean()
        b = self.temp_decay(t)
        reg_on = float(t >= self.loss_start)
        soft = self.layer.h()
        penalty = (1 - ((soft - 0.5).abs() * 2).pow(b)).sum()
        return rec + reg_on * self.weight * penalty, rec


def wakeword_frames(n, gen):
    t = torch.linspace(0, 1, 40)
    f0 = 2 + 4 * torch.rand(n, 1, generator=gen)
    y = (f0[:, 0] > 4).long()
    x = torch.sin(6.283 * f0 * t) * torch.exp(-t) + 0.1 * torch.randn(n, 40, generator=gen)
    return x, y


def pretrain(model, x, y, iters=60):
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(iters):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


@torch.no_grad()
def layer_io(fp, q, idx, x):
    inp = q[:idx](x) if idx else x
    ref = fp[:idx + 1](x)
    return inp, ref


def reconstruct(fp, q, idx, x, device, iters, batch, gen):
    layer = q[idx]
    inp, ref = layer_io(fp, q, idx, x)
    torch_xla.sync()
    opt = torch.optim.Adam([layer.alpha], lr=1e-2)
    objective = RoundingLoss(layer, iters)
    for t in range(iters):
        pick = torch.randperm(x.size(0), generator=gen)[:batch].to(device)
        out = layer(inp.index_select(0, pick))
        loss, rec = objective(out, ref.index_select(0, pick), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
    layer.soft = False
    hard = (layer.alpha.detach() >= 0).float().mean()
    print(f"layer {idx}: rec {rec.item():.5f}  rounded up {hard.item():.3f}")


def main():
    device = torch_xla.device()
    torch.manual_seed(77)
    gen = torch.Generator().manual_seed(77)
    x, y = wakeword_frames(256, gen)
    fp = nn.Sequential(nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 2))
    pretrain(fp, x, y)
    q = copy.deepcopy(fp)
    linear_idx = [i for i, m in enumerate(q) if isinstance(m, nn.Linear)]
    for i in linear_idx:
        q[i] = QuantLinear(q[i], n_bits=3)
    fp, q = fp.to(device).eval(), q.to(device)
    xd, yd = x.to(device), y.to(device)
    for i in linear_idx:
        reconstruct(fp, q, i, xd, device, iters=20, batch=32, gen=gen)
    with torch.no_grad():
        acc_fp = (fp(xd).argmax(1) == yd).float().mean()
        acc_q = (q(xd).argmax(1) == yd).float().mean()
    torch_xla.sync()
    print(f"fp32 acc {acc_fp.item():.3f}  w3 acc {acc_q.item():.3f}")


if __name__ == "__main__":
    main()
