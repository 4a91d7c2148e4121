"""PointNet part segmentation of single trees (terrestrial lidar): wood / leaf / ground."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC


def mlp(*dims):
    layers = []
    for a, b in zip(dims[:-1], dims[1:]):
        layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class TNet(nn.Module):
    def __init__(self, k, width=16):
        super().__init__()
        self.k = k
        self.point = mlp(k, width)
        self.fc = nn.Linear(width, k * k)
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        h = self.point(x).max(dim=2)[0]
        eye = torch.eye(self.k, device=x.device).flatten()
        return (self.fc(h) + eye).view(-1, self.k, self.k)


def orthogonality(m):
    eye = torch.eye(m.shape[1], device=m.device)
    gap = torch.bmm(m, m.transpose(1, 2)) - eye
    return gap.pow(2).sum(dim=(1, 2)).mean()


class TreeSeg(nn.Module):
    def __init__(self, in_dim=5, local=16, classes=3):
        super().__init__()
        self.lift = mlp(in_dim, local)
        self.feat_t = TNet(local)
        self.deep = mlp(local, 16)
        self.head = mlp(local + 16, 16)
        self.out = nn.Conv1d(16, classes, 1)

    def forward(self, x):
        n = x.shape[2]
        h = self.lift(x)
        t = self.feat_t(h)
        h = torch.bmm(t, h)
        g = self.deep(h).max(dim=2, keepdim=True)[0].expand(-1, -1, n)
        z = torch.cat([h, g], dim=1)
        return self.out(self.head(z)), t


def focal(logits, y, gamma=2.0):
    logp = F.log_softmax(logits, dim=1)
    logpt = logp.gather(1, y.unsqueeze(1)).squeeze(1)
    return (-(1 - logpt.exp()) ** gamma * logpt).mean()


def train_step(model, opt, x, y):
    opt.zero_grad()
    logits, t = model(x)
    loss = focal(logits, y) + 1e-3 * orthogonality(t)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    opt.step()
    return loss.detach()


def batch(gen, device, b=4, n=32):
    xyz = torch.randn(b, 3, n, generator=gen)
    intensity = torch.rand(b, 1, n, generator=gen)
    height = xyz[:, 2:3] - xyz[:, 2:3].amin(dim=2, keepdim=True)
    y = (height.squeeze(1) > 1.5).long() + (intensity.squeeze(1) > 0.6).long()
    return torch.cat([xyz, intensity, height], 1).to(device), y.to(device)


def pending(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p)
        out.append(p.grad)
        for _, v in sorted(opt.state[p].items()):
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    out.extend(model.buffers())
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(11)
    device = torch_xla.device()
    model = TreeSeg().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(5)
    torch_xla.sync()
    for i in range(args.steps):
        loss = train_step(model, opt, *batch(gen, device))
        if args.dump and i == args.steps - 1:
            with open(args.dump, "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
