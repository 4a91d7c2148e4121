"""x-vector speaker embeddings with an additive angular margin, one SGD step."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_MELS, CH, EMB, SPEAKERS = 20, 24, 16, 10


class TDNNBlock(nn.Module):
    def __init__(self, c_in, c_out, kernel, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, kernel, dilation=dilation, bias=False)
        self.bn = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return self.bn(F.relu(self.conv(x)))


class StatsPool(nn.Module):
    """Mean and standard deviation over the frames."""

    def forward(self, x):
        mean = x.mean(dim=2)
        var = (x - mean.unsqueeze(2)).pow(2).mean(dim=2)
        std = torch.sqrt(var.clamp(min=1e-6))
        return torch.cat([mean, std], dim=1)


class XVector(nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = nn.Sequential(
            TDNNBlock(N_MELS, CH, 5, 1),
            TDNNBlock(CH, CH, 3, 2),
            TDNNBlock(CH, CH, 3, 3),
            TDNNBlock(CH, 2 * CH, 1, 1),
        )
        self.pool = StatsPool()
        self.fc = nn.Linear(4 * CH, EMB, bias=False)
        self.bn = nn.BatchNorm1d(EMB)

    def forward(self, feats):
        feats = feats - feats.mean(dim=2, keepdim=True)
        return self.bn(self.fc(self.pool(self.frames(feats))))


class AAMSoftmax(nn.Module):
    def __init__(self, margin=0.2, scale=30.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(SPEAKERS, EMB))
        nn.init.xavier_normal_(self.weight)
        self.scale = scale
        self.cos_m, self.sin_m = math.cos(margin), math.sin(margin)
        self.th = math.cos(math.pi - margin)
        self.mm = math.sin(math.pi - margin) * margin

    def forward(self, emb, label):
        cosine = F.linear(F.normalize(emb), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(1e-6, 1.0))
        phi = cosine * self.cos_m - sine * self.sin_m
        # past pi - m the margin is replaced by a linear penalty
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        target = F.one_hot(label, SPEAKERS).to(cosine.dtype)
        logits = self.scale * (target * phi + (1.0 - target) * cosine)
        return F.cross_entropy(logits, label), (logits.argmax(1) == label).float().mean()


def train_step(net, head, opt, feats, label):
    loss, acc = head(net(feats), label)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach(), acc.detach()


def live(net, head, opt, logs):
    params = list(net.parameters()) + list(head.parameters())
    out = list(params) + list(net.buffers())
    out += [opt.state[p]["momentum_buffer"] for p in params]
    return out + list(logs)


def setup():
    torch.manual_seed(12)
    dev = torch_xla.device()
    net, head = XVector().to(dev), AAMSoftmax().to(dev)
    opt = torch.optim.SGD(
        [{"params": net.parameters(), "weight_decay": 2e-5},
         {"params": head.parameters(), "weight_decay": 2e-4}],
        lr=0.02, momentum=0.9, nesterov=True)
    feats = torch.randn(6, N_MELS, 32).to(dev)
    label = torch.randint(0, SPEAKERS, (6,)).to(dev)
    torch_xla.sync()
    return net, head, opt, feats, label


def main(path):
    net, head, opt, feats, label = setup()
    for it in range(4):
        logs = train_step(net, head, opt, feats, label)
        if it == 3 and path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, head, opt, logs)))
        torch_xla.sync()
        print(it, *(v.item() for v in logs))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
