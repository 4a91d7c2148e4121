"""Two-speaker separation (a small Conv-TasNet), permutation-invariant SI-SNR.

Writes the step's HLO for two steps of one run:  step.py a.hlo b.hlo
"""
import itertools
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FILTERS, WIN, HID, SPK = 12, 8, 16, 2
DUMP_AT = (5, 6)


class GlobalLayerNorm(nn.Module):
    def __init__(self, ch, eps=1e-8):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, ch, 1))
        self.beta = nn.Parameter(torch.zeros(1, ch, 1))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=(1, 2), keepdim=True)
        var = (x - mean).pow(2).mean(dim=(1, 2), keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class SepBlock(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.inp = nn.Conv1d(FILTERS, HID, 1, bias=False)
        self.depth = nn.Conv1d(HID, HID, 3, padding=dilation, dilation=dilation, groups=HID)
        self.norm = GlobalLayerNorm(HID)
        self.out = nn.Conv1d(HID, FILTERS, 1)
        self.slope = nn.Parameter(torch.full((1,), 0.25))

    def act(self, y):
        return torch.clamp(y, min=0) + self.slope * torch.clamp(y, max=0)

    def forward(self, x):
        y = self.act(self.inp(x))
        y = self.norm(self.act(self.depth(y)))
        return x + self.out(y)


class TasNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(1, FILTERS, WIN, stride=WIN // 2, bias=False)
        self.block = SepBlock(2)
        self.mask = nn.Conv1d(FILTERS, SPK * FILTERS, 1, bias=False)
        self.decoder = nn.ConvTranspose1d(FILTERS, 1, WIN, stride=WIN // 2, bias=False)

    def forward(self, mix):
        w = F.relu(self.encoder(mix.unsqueeze(1)))
        b, _, k = w.shape
        m = torch.sigmoid(self.mask(self.block(w))).view(b, SPK, FILTERS, k)
        s = (w.unsqueeze(1) * m).reshape(b * SPK, FILTERS, k)
        return self.decoder(s).view(b, SPK, -1)


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(dim=-1, keepdim=True)
    ref = ref - ref.mean(dim=-1, keepdim=True)
    dot = (est * ref).sum(dim=-1, keepdim=True)
    target = dot * ref / (ref.pow(2).sum(dim=-1, keepdim=True) + eps)
    noise = est - target
    return 10.0 * torch.log10(target.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps) + eps)


def pit_loss(est, ref):
    per_perm = [-si_snr(est[:, list(p)], ref).mean(dim=1)
                for p in itertools.permutations(range(SPK))]
    return torch.stack(per_perm, dim=1).min(dim=1)[0].mean()


def train_step(net, opt, mix, ref):
    opt.zero_grad()
    loss = pit_loss(net(mix), ref)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


def live(net, opt, loss):
    out = list(net.parameters())
    for p in net.parameters():
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + [loss]


def main(paths):
    torch.manual_seed(14)
    dev = torch_xla.device()
    net = TasNet().to(dev)
    opt = torch.optim.RAdam(net.parameters(), lr=1e-3)
    ref = torch.randn(3, SPK, 64)
    mix, ref = ref.sum(dim=1).to(dev), ref.to(dev)
    torch_xla.sync()
    for it in range(1, 9):
        loss = train_step(net, opt, mix, ref)
        if it in DUMP_AT and paths:
            with open(paths[DUMP_AT.index(it)], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, opt, loss)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1:3])
