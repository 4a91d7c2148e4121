"""Speaker verification: x-vector style TDNN, statistics pooling, additive angular margin."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class TDNNLayer(nn.Module):
    def __init__(self, i, o, k, d=1):
        super().__init__()
        self.conv = nn.Conv1d(i, o, k, dilation=d, bias=False)
        self.bn = nn.BatchNorm1d(o)

    def forward(self, x):
        return self.bn(F.relu(self.conv(x)))


class StatsPool(nn.Module):
    def forward(self, x):
        mu = x.mean(dim=2)
        var = ((x - mu.unsqueeze(2)) ** 2).mean(dim=2)
        return torch.cat([mu, torch.sqrt(var + 1e-5)], dim=1)


class XVector(nn.Module):
    def __init__(self, n_mels=10, ch=8, emb=8):
        super().__init__()
        self.l1 = TDNNLayer(n_mels, ch, 5)
        self.l2 = TDNNLayer(ch, ch, 3, 2)
        self.pool = StatsPool()
        self.fc = nn.Linear(2 * ch, emb)

    def forward(self, x):
        x = x - x.mean(dim=2, keepdim=True)
        return self.fc(self.pool(self.l2(self.l1(x))))


class AAMSoftmax(nn.Module):
    def __init__(self, emb, n_speakers, margin=0.2, scale=30.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_speakers, emb))
        nn.init.xavier_normal_(self.weight)
        self.cos_m, self.sin_m = math.cos(margin), math.sin(margin)
        self.th, self.mm = math.cos(math.pi - margin), math.sin(math.pi - margin) * margin
        self.scale = scale

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight, dim=0))
        sine = torch.sqrt((1.0 - cosine ** 2).clamp(1e-6, 1.0))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = F.one_hot(label, self.weight.shape[0]).float()
        logits = self.scale * (one_hot * phi + (1.0 - one_hot) * cosine)
        return F.cross_entropy(logits, label)


def build_optimizer(params):
    return torch.optim.Adam(params, lr=2e-3, weight_decay=2e-2)


def main(out):
    torch.manual_seed(4)
    device = torch_xla.device()
    net = nn.ModuleDict({"encoder": XVector(), "head": AAMSoftmax(8, 6)}).to(device)
    params = list(net.parameters())
    opt = build_optimizer(params)
    torch_xla.sync()
    for i in range(4):
        feats = torch.randn(5, 10, 24).to(device)
        label = torch.randint(0, 6, (5,)).to(device)
        loss = net["head"](net["encoder"](feats), label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if i == 2:
            ts = [loss] + params + [p.grad for p in params] + list(net.buffers())
            ts += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(ts))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
