"""PointNet with an input transform, for sorting lidar clusters (tree, pole, car, person).

usage: after.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_CLASS, N_POINT, BATCH = 4, 16, 4


class TNet(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.conv = nn.Conv1d(k, 6, 1)
        self.bn = nn.BatchNorm1d(6)
        self.fc = nn.Linear(6, k * k)
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x)))
        h = h.amax(dim=2)
        m = self.fc(h).view(-1, self.k, self.k)
        return m + torch.eye(self.k, device=x.device)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.tnet = TNet()
        self.conv1 = nn.Conv1d(3, 8, 1)
        self.bn1 = nn.BatchNorm1d(8)
        self.conv2 = nn.Conv1d(8, 10, 1)
        self.bn2 = nn.BatchNorm1d(10)
        self.fc = nn.Linear(10, N_CLASS)

    def forward(self, pts):
        trans = self.tnet(pts)
        x = torch.bmm(trans, pts)
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x)).amax(dim=2)
        return self.fc(x), trans


def orthogonality(trans):
    eye = torch.eye(trans.size(1), device=trans.device)
    gap = torch.bmm(trans, trans.transpose(1, 2)) - eye
    return (gap * gap).sum(dim=(1, 2)).mean()


def loss_fn(logits, trans, label, class_weight):
    ce = F.cross_entropy(logits, label, weight=class_weight)
    return ce + 1e-2 * orthogonality(trans)


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def live_tensors(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["momentum_buffer"]]
    out += list(model.buffers())
    return out


def main(path, steps=3):
    torch.manual_seed(31)
    dev = torch_xla.device()
    model = PointNet().to(dev)
    opt = make_optimizer(model)
    class_weight = torch.tensor([0.7, 1.6, 0.9, 2.1]).to(dev)
    g = torch.Generator().manual_seed(14)
    for step in range(steps):
        pts = torch.randn(BATCH, 3, N_POINT, generator=g).to(dev)
        label = torch.randint(0, N_CLASS, (BATCH,), generator=g).to(dev)
        opt.zero_grad()
        logits, trans = model(pts)
        loss = loss_fn(logits, trans, label, class_weight)
        loss.backward()
        opt.step()
        correct = (logits.detach().argmax(-1) == label).sum()
        if step == steps - 1:
            tensors = live_tensors(model, opt, [loss, correct])
            text = torch_xla._XLAC._get_xla_tensors_hlo(tensors)
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item(), correct.item())


if __name__ == "__main__":
    main(sys.argv[1])
