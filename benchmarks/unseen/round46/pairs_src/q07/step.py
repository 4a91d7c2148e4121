"""Point-cloud part labelling for plant scans: PointNet-like net, class-weighted loss, one epoch of a small set.

usage: step.py A.hlo B.hlo   pending graphs of step 2 (A) and of the epoch's last step (B)
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

POINTS, PARTS, WIDTH = 24, 4, 12


class SharedMLP(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm1d(cout, momentum=0.05)

    def forward(self, x):
        return F.hardswish(self.bn(self.lin(x)))


class PlantNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local1 = SharedMLP(6, WIDTH)
        self.local2 = SharedMLP(WIDTH, WIDTH)
        self.glob = SharedMLP(WIDTH, 2 * WIDTH)
        self.fuse = SharedMLP(3 * WIDTH, WIDTH)
        self.head = nn.Conv1d(WIDTH, PARTS, 1)

    def forward(self, pts):
        x = self.local2(self.local1(pts))
        g = self.glob(x).amax(dim=-1, keepdim=True).expand(-1, -1, pts.shape[-1])
        return self.head(self.fuse(torch.cat([x, g], dim=1)))


class ScanSet(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(2024)
        self.pts = torch.randn(n, 6, POINTS, generator=g)
        self.lab = torch.randint(0, PARTS, (n, POINTS), generator=g)

    def __len__(self):
        return len(self.pts)

    def __getitem__(self, i):
        return self.pts[i], self.lab[i]


def part_loss(logits, labels, weight):
    ce = F.cross_entropy(logits, labels, weight=weight)
    prob = F.softmax(logits, dim=1)
    hot = F.one_hot(labels, PARTS).permute(0, 2, 1).to(prob.dtype)
    inter = (prob * hot).sum(dim=(0, 2))
    dice = 1 - (2 * inter + 1) / (prob.sum(dim=(0, 2)) + hot.sum(dim=(0, 2)) + 1)
    return ce + 0.5 * dice.mean()


def main(out_a, out_b):
    device = xm.xla_device()
    torch.manual_seed(15)
    net = PlantNet().to(device)
    weight = torch.tensor([0.4, 1.0, 1.3, 2.1]).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, foreach=False)
    loader = torch.utils.data.DataLoader(ScanSet(29), batch_size=6, shuffle=True)
    dumps = {2: out_a, len(loader) - 1: out_b}
    for step, (pts, lab) in enumerate(loader):
        pts, lab = pts.to(device), lab.to(device)
        loss = part_loss(net(pts), lab, weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in dumps:
            live = list(net.parameters()) + list(net.buffers())
            live += [opt.state[p]["momentum_buffer"] for p in net.parameters()] + [loss]
            with open(dumps[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, len(lab), loss.item())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
