import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class MoCo(nn.Module):
    def __init__(self, dim=8, queue_size=128, m=0.99, temp=0.2):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, dim))
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad = False
        self.m, self.temp, self.queue_size = m, temp, queue_size
        self.queue = None

    @torch.no_grad()
    def momentum_update(self):
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.mul_(self.m).add_(a, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        bank = keys if self.queue is None else torch.cat([self.queue, keys])
        if len(bank) > self.queue_size:
            bank = bank[-self.queue_size:]
        self.queue = bank

    def forward(self, view_a, view_b):
        q = F.normalize(self.q(view_a), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.k(view_b), dim=1)
        negatives = k if self.queue is None else self.queue
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ negatives.t()], 1) / self.temp
        target = torch.zeros(len(q), dtype=torch.long, device=q.device)
        self.enqueue(k)
        return F.cross_entropy(logits, target)


def augment(x):
    return x + 0.1 * torch.randn_like(x)


torch.manual_seed(0)
device = torch_xla.device()
model = MoCo().to(device)
opt = torch.optim.SGD(model.q.parameters(), lr=0.03, momentum=0.9)
for step in range(10):
    x = torch.randn(8, 10)
    loss = model(augment(x).to(device), augment(x).to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    print(step, loss.item())
