"""MoCo-style pre-training on small single-channel patches."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvEncoder(nn.Module):
    def __init__(self, width=8, dim=16):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(2, 2 * width)
        self.head = nn.Sequential(
            nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, dim))

    def forward(self, x):
        x = F.relu(self.norm1(self.stem(x)))
        x = F.relu(self.norm2(self.conv(x)))
        return F.normalize(self.head(x.mean(dim=(2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=16, queue_size=48, momentum=0.99, temperature=0.2):
        super().__init__()
        self.momentum = momentum
        self.temperature = temperature
        self.queue_size = queue_size
        self.encoder_q = ConvEncoder(dim=dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue_size), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.momentum).add_(q.detach(), alpha=1.0 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.queue_size % n == 0
        ptr = self.queue_ptr
        self.queue[:, ptr:ptr + n] = keys.t()
        self.queue_ptr = (ptr + n) % self.queue_size

    def forward(self, view_q, view_k):
        q = self.encoder_q(view_q)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.encoder_k(view_k)
        pos = (q * k).sum(dim=1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], dim=1) / self.temperature
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        return loss


def two_views(images, generator):
    shift = int(torch.randint(0, 4, (1,), generator=generator))
    noise = 0.1 * torch.randn(images.shape, generator=generator)
    return images + noise, torch.roll(images, shift, dims=3).flip(3)


def main(steps=8, batch_size=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoCo().to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.06, momentum=0.9, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(64, 1, 16, 16, generator=generator)

    for step in range(steps):
        idx = torch.randint(0, len(data), (batch_size,), generator=generator)
        view_q, view_k = two_views(data[idx], generator)
        loss = model(view_q.to(device), view_k.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
