import copy
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

cfg = dict(dim=24, queue=96, batch=16, momentum=0.99, temp=0.1, lr=0.05, steps=14)


def conv_block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


def backbone(dim):
    return nn.Sequential(
        conv_block(3, 8, 1),
        conv_block(8, 16, 2),
        conv_block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, dim),
    )


class MoCo(nn.Module):
    def __init__(self, dim, K, m, T):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = backbone(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(K, dim), dim=1))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        self.queue[self.queue_ptr:self.queue_ptr + n] = keys
        self.queue_ptr = (self.queue_ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().detach().t()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return logits, labels


def two_views(gen, n):
    base = torch.randn(n, 3, 16, 16, generator=gen)
    def view():
        x = base + 0.2 * torch.randn(base.shape, generator=gen)
        if torch.rand(1, generator=gen).item() > 0.5:
            x = x.flip(-1)
        return x
    return view(), view()


def train():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(4)
    dev = torch_xla.device()
    model = MoCo(cfg["dim"], cfg["queue"], cfg["momentum"], cfg["temp"]).to(dev)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=cfg["lr"], momentum=0.9, weight_decay=1e-4)
    for it in range(cfg["steps"]):
        a, b = two_views(gen, cfg["batch"])
        logits, labels = model(a.to(dev), b.to(dev))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if it % 5 == 0:
            acc = (logits.argmax(1) == 0).float().mean()
            print("iter", it, "loss %.4f" % loss.item(), "acc %.3f" % acc.item())


if __name__ == "__main__":
    train()
