# momentum contrast, 1-d signals
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

BS, LEN, DIM, K, T, M = 8, 32, 16, 64, 0.2, 0.99


class Waves(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        t = torch.linspace(0, 6.28, LEN)
        self.f = torch.rand(n, 3, generator=g) * 4
        self.x = sum(torch.sin(self.f[:, i:i + 1] * t) for i in range(3)).unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def aug(self, x, s):
        g = torch.Generator().manual_seed(s)
        x = x * (0.8 + 0.4 * torch.rand(1, generator=g))
        return torch.roll(x, int(torch.randint(0, LEN, (1,), generator=g)), -1) + 0.05 * torch.randn(x.shape, generator=g)

    def __getitem__(self, i):
        return self.aug(self.x[i], 2 * i), self.aug(self.x[i], 2 * i + 1)


def encoder():
    return nn.Sequential(
        nn.Conv1d(1, 8, 5, stride=2, padding=2), nn.GroupNorm(2, 8), nn.ReLU(),
        nn.Conv1d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(2, 16), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, DIM))


class MoCo(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = encoder()
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(DIM, K), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for pq, pk in zip(self.q.parameters(), self.k.parameters()):
            pk.mul_(M).add_(pq, alpha=1 - M)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert K % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % K

    def forward(self, a, b):
        q = F.normalize(self.q(a), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.k(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], 1) / T
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(q.shape[0], dtype=torch.long, device=q.device))


def main():
    torch.manual_seed(1)
    dev = torch_xla.device()
    net = MoCo().to(dev)
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05, momentum=0.9, weight_decay=1e-4)
    loader = MpDeviceLoader(DataLoader(Waves(BS * 6), batch_size=BS, shuffle=False, drop_last=True), dev)
    torch_xla.sync()
    running = None
    for a, b in loader:
        loss = net(a, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = loss.detach() if running is None else 0.9 * running + 0.1 * loss.detach()
        xm.add_step_closure(lambda r: print("loss %.4f" % r.item()), args=(running,))


main()
