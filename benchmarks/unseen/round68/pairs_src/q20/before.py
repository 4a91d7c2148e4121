"""Attentive neural process for sparse Argo float temperature profiles."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

DX, DY, R = 3, 1, 12
N_CONTEXT, N_TARGET = 6, 10


class NeuralProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.det_in = nn.Linear(DX + DY, R)
        self.det_out = nn.Linear(R, R)
        self.lat_in = nn.Linear(DX + DY, R)
        self.lat_out = nn.Linear(R, 2 * R)
        self.key_net = nn.Linear(DX, R)
        self.dec_in = nn.Linear(DX + 2 * R, R)
        self.dec_out = nn.Linear(R, 2 * DY)

    def forward(self, xc, yc, xt, yt, eps):
        pc = torch.cat([xc, yc], -1)
        pt = torch.cat([xt, yt], -1)

        rc = self.det_out(F.gelu(self.det_in(pc)))

        hc = self.lat_out(F.gelu(self.lat_in(pc)).mean(1))
        mu_c = hc[:, :R]
        sd_c = 0.1 + 0.9 * torch.sigmoid(hc[:, R:])
        ht = self.lat_out(F.gelu(self.lat_in(pt)).mean(1))
        mu_t = ht[:, :R]
        sd_t = 0.1 + 0.9 * torch.sigmoid(ht[:, R:])

        q = self.key_net(xt)
        k = self.key_net(xc)
        w = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(R), -1)
        r = w @ rc

        z = (mu_t + sd_t * eps).unsqueeze(1).expand(-1, xt.size(1), -1)
        out = self.dec_out(F.gelu(self.dec_in(torch.cat([xt, r, z], -1))))
        mean = out[..., :DY]
        sd = 0.1 + 0.9 * F.softplus(out[..., DY:])

        ll = -0.5 * ((yt - mean) / sd) ** 2 - torch.log(sd) - 0.5 * math.log(2 * math.pi)
        kl = torch.log(sd_c / sd_t) + (sd_t ** 2 + (mu_t - mu_c) ** 2) / (2 * sd_c ** 2) - 0.5
        return -ll.sum(-1).mean() + kl.sum(-1).mean() / xt.size(1)


def profiles(n, g):
    x = torch.rand(n, N_TARGET, DX, generator=g) * 2 - 1
    depth = x[..., :1]
    y = 0.8 * torch.exp(-1.5 * (depth + 1)) + 0.1 * torch.sin(3 * x[..., 1:2])
    return x[:, :N_CONTEXT], y[:, :N_CONTEXT], x, y, torch.randn(n, R, generator=g)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = xm.xla_device()
    model = NeuralProcess().to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    xm.mark_step()
    for i in range(6):
        xc, yc, xt, yt, eps = [t.to(device) for t in profiles(8, g)]
        loss = model(xc, yc, xt, yt, eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xm.mark_step()
        print(i, loss.item(), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
