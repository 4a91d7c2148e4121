import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.down(x))


class Encoder(nn.Module):
    def __init__(self, width=8, dim=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layer1 = Block(width, 2 * width, 2)
        self.fc = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = self.layer1(x).mean(dim=(2, 3))
        return F.normalize(self.fc(x), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=16, size=64, m=0.99, temperature=0.2):
        super().__init__()
        self.size = size
        self.m = m
        self.temperature = temperature
        self.encoder_q = Encoder(dim=dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        assert self.size % n == 0
        ptr = self.queue_ptr
        self.queue[:, ptr:ptr + n] = keys.t()
        self.queue_ptr = (ptr + n) % self.size

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self.momentum_update()
            k = self.encoder_k(im_k)
        pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([pos, neg], dim=1) / self.temperature
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.dequeue_and_enqueue(k)
        return logits, labels


def two_crops(images):
    q = images + 0.1 * torch.randn_like(images)
    k = torch.flip(images, dims=[3]) + 0.1 * torch.randn_like(images)
    return q, k


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=8)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoCo().to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()

    for step in range(args.steps):
        im_q, im_k = two_crops(torch.rand(args.batch_size, 3, 16, 16))
        im_q, im_k = im_q.to(device), im_k.to(device)
        logits, labels = model(im_q, im_k)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
