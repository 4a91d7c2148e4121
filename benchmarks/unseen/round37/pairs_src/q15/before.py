"""Spare-part demand: gated dilated convolutions, quantile forecasts for the next step of every position."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

COVARIATES, CH, SPAN, BATCH = 4, 10, 14, 5
QUANTILES = (0.1, 0.5, 0.9)


class CausalConv(nn.Module):

    def __init__(self, c_in, c_out, kernel, dilation):
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.conv = nn.Conv1d(c_in, c_out, kernel, padding=self.pad, dilation=dilation)

    def forward(self, x):
        return self.conv(x)[:, :, :-self.pad]


class GatedBlock(nn.Module):

    def __init__(self, dilation):
        super().__init__()
        self.filter = CausalConv(CH, CH, 2, dilation)
        self.gate = CausalConv(CH, CH, 2, dilation)
        self.skip = nn.Conv1d(CH, CH, 1)
        self.res = nn.Conv1d(CH, CH, 1)

    def forward(self, x):
        h = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return x + self.res(h), self.skip(h)


class DemandNet(nn.Module):

    def __init__(self):
        super().__init__()
        self.inp = nn.Conv1d(1 + COVARIATES, CH, 1)
        self.blocks = nn.ModuleList(GatedBlock(2**i) for i in range(3))
        self.mix = nn.Conv1d(CH, CH, 1)
        self.head = nn.Conv1d(CH, len(QUANTILES), 1)

    def forward(self, demand, covariates):
        level = demand.abs().mean(dim=1, keepdim=True) + 1.0
        x = torch.cat([(demand / level).unsqueeze(1), covariates], dim=1)
        x = self.inp(x)
        skips = 0.0
        for block in self.blocks:
            x, skip = block(x)
            skips = skips + skip
        y = self.head(F.relu(self.mix(F.relu(skips))))
        return y * level.unsqueeze(1)


def pinball(pred, target, weight):
    """pred [B, Q, T], target and weight [B, T]"""
    total = 0.0
    for i, q in enumerate(QUANTILES):
        err = target - pred[:, i]
        total = total + torch.maximum(q * err, (q - 1.0) * err)
    return (total * weight).sum() / weight.sum()


def batch(gen, device):
    demand = torch.poisson(torch.rand(BATCH, SPAN + 1, generator=gen) * 3, generator=gen)
    covariates = torch.randn(BATCH, COVARIATES, SPAN, generator=gen)
    weight = (torch.rand(BATCH, SPAN, generator=gen) < 0.9).float()
    return demand[:, :-1].to(device), covariates.to(device), demand[:, 1:].to(device), weight.to(device)


def main(dump=None):
    torch.manual_seed(15)
    device = torch_xla.device()
    model = DemandNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(4):
        demand, covariates, target, weight = batch(gen, device)
        optimizer.zero_grad()
        loss = pinball(model(demand, covariates), target, weight)
        loss.backward()
        optimizer.step()
        if dump and step == 2:
            live = [loss]
            for p in model.parameters():
                if p.grad is not None:  # the last block's residual is not used
                    live += [p, p.grad, optimizer.state[p]["momentum_buffer"]]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(*sys.argv[1:])
