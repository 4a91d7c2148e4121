# momentum contrast on toy 1-d signals
import copy
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def conv_encoder(dim):
    return nn.Sequential(
        nn.Conv1d(2, 12, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv1d(12, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 24),
        nn.ReLU(),
        nn.Linear(24, dim),
    )


class MoCo(nn.Module):

    def __init__(self, dim=8, K=48, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = conv_encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update_key_encoder(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.data = pk.data * self.m + pq.data * (1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        ptr = self.queue_ptr
        assert self.K % n == 0
        self.queue[:, ptr:ptr + n] = keys.T
        self.queue_ptr = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update_key_encoder()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return logits, labels


def two_views(n, length, g):
    t = torch.linspace(0, 1, length)
    f = 1 + 6 * torch.rand(n, 2, 1, generator=g)
    ph = torch.rand(n, 2, 1, generator=g)
    base = torch.sin(6.283 * (f * t + ph))
    a = base + 0.1 * torch.randn(n, 2, length, generator=g)
    b = base * 0.8 + 0.1 * torch.randn(n, 2, length, generator=g)
    return a, b


def train(args):
    torch.manual_seed(args.seed)
    dev = xm.xla_device()
    model = MoCo(T=args.temperature).to(dev)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=args.lr, momentum=0.9,
                          weight_decay=1e-4)
    g = torch.Generator().manual_seed(args.seed + 1)
    xm.mark_step()
    for it in range(args.iters):
        a, b = two_views(args.batch_size, 32, g)
        logits, labels = model(a.to(dev), b.to(dev))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if it % args.print_freq == 0:
            acc = (logits.argmax(1) == labels).float().mean()
            print(f"iter {it} loss {loss.item():.4f} acc {acc.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.03)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--iters", type=int, default=5)
    ap.add_argument("--print-freq", type=int, default=2)
    ap.add_argument("--temperature", type=float, default=0.2)
    ap.add_argument("--seed", type=int, default=0)
    train(ap.parse_args())
