"""PointNet with an input transform for tree-species classification from
lidar point clouds; hand-written Nesterov momentum update."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class PointMLP(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.lins = nn.ModuleList(
            [nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:])])
        self.norms = nn.ModuleList([nn.LayerNorm(b) for b in dims[1:]])

    def forward(self, x):
        for lin, norm in zip(self.lins, self.norms):
            x = F.relu(norm(lin(x)))
        return x


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.mlp = PointMLP([k, 12, 16])
        self.fc = nn.Linear(16, k * k)
        nn.init.normal_(self.fc.weight, std=0.02)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        g = self.mlp(x).max(dim=1)[0]
        m = self.fc(g).view(-1, self.k, self.k)
        return m + torch.eye(self.k, device=x.device)


class PointNet(nn.Module):
    def __init__(self, n_classes=5):
        super().__init__()
        self.tnet = TNet(3)
        self.local = PointMLP([3, 12])
        self.glob = PointMLP([12, 20])
        self.head = nn.Linear(32, n_classes)

    def forward(self, pts):
        t = self.tnet(pts)
        x = torch.einsum("bni,bij->bnj", pts, t)
        loc = self.local(x)
        g = self.glob(loc)
        feat = torch.cat([loc.mean(1), g.max(dim=1)[0]], dim=-1)
        return self.head(feat), t


def orth_penalty(t):
    eye = torch.eye(t.shape[-1], device=t.device)
    d = torch.einsum("bij,bkj->bik", t, t) - eye
    return (d ** 2).sum(dim=(1, 2)).mean()


def focal_loss(logits, y, gamma=2.0, smooth=0.1):
    n = logits.shape[-1]
    logp = F.log_softmax(logits, dim=-1)
    p = logp.exp()
    target = F.one_hot(y, n).float() * (1 - smooth) + smooth / n
    return -(target * (1 - p) ** gamma * logp).sum(-1).mean()


def sgd_step(params, bufs, lr=0.02, mu=0.9, wd=5e-4):
    with torch.no_grad():
        for p, b in zip(params, bufs):
            g = p.grad + wd * p
            b.mul_(mu).add_(g)
            p.sub_(lr * (g + mu * b))


def main(path):
    torch.manual_seed(6)
    dev = xm.xla_device()
    model = PointNet().to(dev)
    params = list(model.parameters())
    bufs = [torch.zeros_like(p) for p in params]
    g = torch.Generator().manual_seed(12)
    for step in range(6):
        pts = torch.randn(4, 24, 3, generator=g).to(dev)
        y = torch.randint(0, 5, (4,), generator=g).to(dev)
        xm.mark_step()
        logits, t = model(pts)
        cls = focal_loss(logits, y)
        loss = cls + 0.01 * orth_penalty(t)
        loss.backward()
        sgd_step(params, bufs)
        for p in params:
            p.grad = None
        if step == 2:
            live = params + bufs + [loss.detach(), cls.detach()]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item(), sum(p.double().abs().sum().item() for p in params))


if __name__ == "__main__":
    main(sys.argv[1])
