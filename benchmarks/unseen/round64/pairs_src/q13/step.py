import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

BANDS = 6
DIM = 12
QUEUE = 48
BATCH = 8
PRINT_FREQ = 4


class TileEncoder(nn.Module):
    """Patch embedding and two mixing blocks for multispectral tiles."""

    def __init__(self, width=16, tokens=16):
        super().__init__()
        self.stem = nn.Conv2d(BANDS, width, 4, stride=4)
        self.token = nn.ModuleList([nn.Linear(tokens, tokens) for _ in range(2)])
        self.channel = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.proj = nn.Linear(width, DIM)

    def forward(self, x):
        h = self.stem(x).flatten(2)
        for tok, ch in zip(self.token, self.channel):
            h = h + F.gelu(tok(h))
            h = h + F.gelu(ch(h.transpose(1, 2))).transpose(1, 2)
        h = self.norm(h.mean(dim=2))
        return F.normalize(self.proj(h), dim=1)


class MoCo(nn.Module):
    def __init__(self, m=0.99, t=0.2):
        super().__init__()
        self.m, self.t = m, t
        self.encoder_q = TileEncoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(DIM, QUEUE), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        ptr = self.queue_ptr
        assert QUEUE % n == 0
        self.queue[:, ptr : ptr + n] = keys.t()
        self.queue_ptr = (ptr + n) % QUEUE

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self._momentum_update()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.t
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return logits, labels, q


class History:
    def __init__(self):
        self.rows = []

    @torch.no_grad()
    def update(self, step, logits, labels, emb):
        pred = logits.argmax(dim=1)
        acc = (pred == labels).float().mean() * 100.0
        sq = (emb.unsqueeze(0) - emb.unsqueeze(1)).pow(2).sum(-1)
        uniformity = torch.exp(-2.0 * sq).mean().log()
        self.rows.append((step, acc, uniformity))

    def flush(self):
        for step, acc, uni in self.rows:
            print(f"step {step} top1 {acc.item():.1f} uniformity {uni.item():.3f}")
        self.rows = []


def tiles(gen):
    x = torch.randn(BATCH, BANDS, 16, 16, generator=gen)
    gain = 1.0 + 0.1 * torch.randn(BATCH, BANDS, 1, 1, generator=gen)
    return x.to(DEVICE), (x * gain).flip(-1).to(DEVICE)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = MoCo().to(DEVICE)
    opt = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=0.03, momentum=0.9, weight_decay=1e-4
    )
    history = History()
    torch_xla.sync()

    for step in range(8):
        im_q, im_k = tiles(gen)
        logits, labels, emb = model(im_q, im_k)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % PRINT_FREQ == 0:
            history.update(step, logits, labels, emb)
        torch_xla.sync()
    history.flush()


if __name__ == "__main__":
    main()
