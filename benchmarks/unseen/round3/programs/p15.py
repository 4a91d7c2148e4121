import math
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, bias):
        return self.norm(x + self.attn(x, x, x, attn_mask=bias, need_weights=False)[0])


def distance_bias(n, slope, device):
    i = torch.arange(n, device=device)
    return -slope * (i[None] - i[:, None]).abs().float()


class LocalityWarmup:
    """Begin with local attention, widen it during training."""

    def __init__(self, n, device):
        self.n, self.device = n, device

    def mask(self, step):
        width = 2 + step // 2
        near = torch.ones(self.n, self.n, device=self.device).triu(-width).tril(width)
        return distance_bias(self.n, 0.1, self.device) + (near - 1) * 1e4


def main(n=12, d=8):
    torch.manual_seed(0)
    device = xm.xla_device()
    layers = nn.ModuleList(FSDP(Layer(d).to(device)) for _ in range(2))
    head = FSDP(nn.Linear(d, 4).to(device))
    opt = torch.optim.SGD([*layers.parameters(), *head.parameters()], lr=0.05)
    warmup = LocalityWarmup(n, device)
    for step in range(10):
        x = torch.randn(3, n, d).to(device)
        y = torch.randint(0, 4, (3, n)).to(device)
        bias = warmup.mask(step)
        for layer in layers:
            x = layer(x, bias)
        loss = nn.functional.cross_entropy(head(x).transpose(1, 2), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, round(loss.item(), 4))


main()
