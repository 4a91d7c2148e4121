"""Forest LiDAR: PointNet with a feature transform, labels each return as ground / stem / crown."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

POINTS, BATCH, FEAT, CLASSES = 10, 4, 8, 3
REG = 0.01


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.mlp = nn.Conv1d(k, 12, 1)
        self.bn = nn.BatchNorm1d(12)
        self.fc = nn.Linear(12, k * k)
        nn.init.normal_(self.fc.weight, std=0.02)
        with torch.no_grad():
            self.fc.bias.copy_(torch.eye(k).flatten())

    def forward(self, x):
        x = F.relu(self.bn(self.mlp(x))).amax(dim=2)
        return self.fc(x).view(-1, self.k, self.k)


class PointSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(4, FEAT, 1)  # x, y, z, return intensity
        self.bn1 = nn.BatchNorm1d(FEAT)
        self.tnet = TNet(FEAT)
        self.conv2 = nn.Conv1d(FEAT, 16, 1)
        self.bn2 = nn.BatchNorm1d(16)
        self.head1 = nn.Conv1d(FEAT + 16, 12, 1)
        self.head2 = nn.Conv1d(12, CLASSES, 1)

    def forward(self, pts):
        x = pts.transpose(1, 2)
        center = x[:, :3].mean(dim=2, keepdim=True)
        x = torch.cat([x[:, :3] - center, x[:, 3:]], dim=1)
        local = F.relu(self.bn1(self.conv1(x)))
        trans = self.tnet(local)
        local = torch.bmm(trans.transpose(1, 2), local)
        glob = F.relu(self.bn2(self.conv2(local))).amax(dim=2, keepdim=True)
        x = torch.cat([local, glob.expand(-1, -1, x.shape[2])], dim=1)
        return self.head2(F.relu(self.head1(x))), trans


def orthogonality(trans):
    eye = torch.eye(trans.shape[1], device=trans.device)
    gap = torch.bmm(trans, trans.transpose(1, 2)) - eye
    return gap.pow(2).mean(dim=(1, 2)).sqrt().mean()


def loss_fn(model, pts, label, class_weight):
    logits, trans = model(pts)
    ce = F.cross_entropy(logits, label, weight=class_weight)
    return ce + REG * orthogonality(trans), ce


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 5e-4}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.02, momentum=0.9, nesterov=True)


def train(steps=4, dump=None, dump_at=3):
    torch.manual_seed(41)
    device = torch_xla.device()
    model = PointSeg()
    data = [(torch.randn(BATCH, POINTS, 4), torch.randint(CLASSES, (BATCH, POINTS)))
            for _ in range(steps)]
    class_weight = torch.tensor([0.6, 1.7, 0.9]).to(device)
    model.to(device)
    opt = make_optimizer(model)
    losses = []
    for step, (pts, label) in enumerate(data, start=1):
        pts, label = pts.to(device), label.to(device)
        loss, ce = loss_fn(model, pts, label, class_weight)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if dump and step == dump_at:
            live = [loss.detach(), ce.detach()]
            for p in model.parameters():
                live += [p, opt.state[p]["momentum_buffer"]]
            live += list(model.buffers())
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append((round(loss.item(), 5), round(ce.item(), 5)))
    return losses


if __name__ == "__main__":
    print(train(dump=sys.argv[1] if len(sys.argv) > 1 else None))
