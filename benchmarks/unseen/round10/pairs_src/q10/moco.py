import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Encoder(nn.Module):
    def __init__(self, dim=16, width=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.proj = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.features(x).mean((2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=16, K=32, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.q = Encoder(dim)
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad = False
        self.register_buffer('queue', F.normalize(torch.randn(K, dim), dim=1))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.mul_(self.m).add_(a, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.size(0)
        self.queue[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % self.K

    def forward(self, xq, xk, hard):
        q = self.q(xq)
        with torch.no_grad():
            self.momentum_update()
            k = self.k(xk)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach().t()
        neg = neg.topk(hard, dim=1).values
        logits = torch.cat([pos, neg], 1) / self.T
        labels = torch.zeros(logits.size(0), dtype=torch.long, device=logits.device)
        loss = F.cross_entropy(logits, labels)
        self.enqueue(k)
        return loss


def augment(x):
    return x + 0.1 * torch.randn_like(x), (x.flip(-1) + 0.1 * torch.randn_like(x))


def num_hard(epoch, K):
    return max(8, K // (1 + epoch))


def main(epochs=2, per_epoch=5, bs=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoCo().to(device).train()
    opt = torch.optim.SGD(model.q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        hard = num_hard(epoch, model.K)
        for it in range(per_epoch):
            xq, xk = augment(torch.randn(bs, 3, 16, 16))
            loss = model(xq.to(device), xk.to(device), hard)
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
            if it % 3 == 0:
                print(epoch, it, hard, loss.item())


if __name__ == '__main__':
    main()
