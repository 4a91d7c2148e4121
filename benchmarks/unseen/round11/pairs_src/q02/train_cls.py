import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.conv1, self.conv2 = nn.Conv1d(k, 16, 1), nn.Conv1d(16, 32, 1)
        self.fc1, self.fc2 = nn.Linear(32, 16), nn.Linear(16, k * k)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(16), nn.BatchNorm1d(32), nn.BatchNorm1d(16)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2)[0]
        x = self.fc2(F.relu(self.bn3(self.fc1(x))))
        iden = torch.eye(self.k, device=x.device).flatten()
        return (x + iden).view(-1, self.k, self.k)


class PointNetCls(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.tnet = TNet(3)
        self.conv1, self.conv2 = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 64, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(16), nn.BatchNorm1d(64)
        self.head = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, pts):
        trans = self.tnet(pts)
        x = torch.bmm(pts.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x = torch.max(x, 2)[0]
        return F.log_softmax(self.head(x), dim=-1), trans


def transform_regularizer(trans):
    eye = torch.eye(trans.size(1), device=trans.device)[None]
    return torch.mean(torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - eye, dim=(1, 2)))


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda):
        self.model = model
        self.lmbd = bn_lambda
        self.epoch = -1
        self.step()

    def step(self):
        self.epoch += 1
        m = self.lmbd(self.epoch)
        for mod in self.model.modules():
            if isinstance(mod, nn.BatchNorm1d):
                mod.momentum = m


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--iters", type=int, default=4)
    p.add_argument("--bs", type=int, default=8)
    args = p.parse_args()
    torch.manual_seed(1)
    dev = xm.xla_device()
    net = PointNetCls().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    bn_sched = BNMomentumScheduler(net, lambda e: max(0.1 * 0.5 ** e, 0.01))
    for epoch in range(args.epochs):
        net.train()
        for i in range(args.iters):
            pts = torch.randn(args.bs, 3, 64).to(dev)
            y = torch.randint(0, 10, (args.bs,)).to(dev)
            opt.zero_grad()
            out, trans = net(pts)
            loss = F.nll_loss(out, y) + 0.001 * transform_regularizer(trans)
            loss.backward()
            opt.step()
            xm.mark_step()
        print("epoch", epoch, "loss", loss.item())
        bn_sched.step()


if __name__ == "__main__":
    main()
