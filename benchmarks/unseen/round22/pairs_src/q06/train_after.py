import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# SimSiam-style pretraining on random 2-channel patches
SIZE = 8
BATCH = 6
WIDTH = 8
EMB = 12
STEPS = 3


def conv_bn(cin, cout, stride):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(2, WIDTH, 1)
        self.stage = conv_bn(WIDTH, WIDTH * 2, 2)
        self.projector = nn.Sequential(
            nn.Linear(WIDTH * 2, EMB, bias=False),
            nn.BatchNorm1d(EMB),
            nn.ReLU(inplace=True),
            nn.Linear(EMB, EMB),
        )

    def forward(self, x):
        h = self.stage(self.stem(x)).mean(dim=(2, 3))
        return self.projector(h)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.predictor = nn.Sequential(nn.Linear(EMB, EMB // 2), nn.ReLU(), nn.Linear(EMB // 2, EMB))

    def forward(self, x1, x2):
        z1 = self.encoder(x1)
        z2 = self.encoder(x2)
        p1 = self.predictor(z1)
        p2 = self.predictor(z2)
        return p1, p2, z1, z2


def neg_cosine(p, z):
    p = F.normalize(p, dim=1)
    z = F.normalize(z, dim=1)
    return -(p * z).sum(dim=1).mean()


def augment(x):
    flip = torch.rand(x.size(0)) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(3), x)
    return x + 0.1 * torch.randn_like(x)


def build_optimizer(model, lr):
    decay, rest = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else rest).append(p)
    groups = [{"params": decay, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def main():
    torch.manual_seed(7)
    dev = torch_xla.device()
    model = SimSiam().to(dev)
    model.train()
    opt = build_optimizer(model, 0.05)
    torch_xla.sync()

    for i in range(STEPS):
        base = torch.randn(BATCH, 2, SIZE, SIZE)
        a, b = augment(base).to(dev), augment(base).to(dev)
        p1, p2, z1, z2 = model(a, b)
        loss = 0.5 * (neg_cosine(p1, z2) + neg_cosine(p2, z1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print("iter", i, "loss", float(loss))


if __name__ == "__main__":
    main()
