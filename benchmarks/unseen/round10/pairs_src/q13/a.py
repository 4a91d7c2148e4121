import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HPARAMS = {
    'points': 24, 'classes': 8, 'batch': 6, 'steps': 6,
    'optimizer': {'lr': 0.05, 'momentum': 0.9, 'weight_decay': 1e-4},
    'loss': {},
}


class SharedMLP(nn.Sequential):
    def __init__(self, *dims):
        mods = []
        for a, b in zip(dims, dims[1:]):
            mods += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
        super().__init__(*mods)


class TNet(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.feat = SharedMLP(k, 8, 16)
        self.fc = nn.Linear(16, k * k)

    def forward(self, x):
        m = self.fc(self.feat(x).mean(2)).view(-1, self.k, self.k)
        return m + torch.eye(self.k, device=x.device)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.t = TNet()
        self.local = SharedMLP(3, 16, 16)
        self.glob = SharedMLP(16, 32)
        self.cls = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, pts):
        x = torch.bmm(self.t(pts), pts)
        x = self.glob(self.local(x))
        return self.cls(x.amax(2))


class Shapes(torch.utils.data.IterableDataset):
    def __init__(self, hp):
        self.hp = hp

    def __iter__(self):
        g = torch.Generator().manual_seed(21)
        for _ in range(self.hp['steps']):
            yield (torch.randn(self.hp['batch'], 3, self.hp['points'], generator=g),
                   torch.randint(0, self.hp['classes'], (self.hp['batch'],), generator=g))


def train(hp):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = PointNet(hp['classes']).to(device)
    opt = torch.optim.SGD(model.parameters(), **hp['optimizer'])
    history = []
    for pts, label in Shapes(hp):
        pts, label = pts.to(device), label.to(device)
        loss = F.cross_entropy(model(pts), label, **hp['loss'])
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        history.append(loss.detach())
    print('loss', [round(l.item(), 3) for l in history])


if __name__ == '__main__':
    train(HPARAMS)
