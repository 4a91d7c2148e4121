"""MoCo v2 style pre-training on toy images."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.GroupNorm(4, o), nn.ReLU(inplace=True))


def build_encoder(dim):
    return nn.Sequential(
        conv_block(3, 16), conv_block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))


class MoCo(nn.Module):
    def __init__(self, dim=16, K=48, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = build_encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.m + q.data * (1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        ptr = self.queue_ptr
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


class TwoCrops:
    def __init__(self, size):
        self.size = size

    def crop(self, img):
        top, left = torch.randint(0, img.shape[-1] - self.size + 1, (2,)).tolist()
        out = img[..., top:top + self.size, left:left + self.size]
        if torch.rand(()) < 0.5:
            out = out.flip(-1)
        return out * (0.8 + 0.4 * torch.rand(()))

    def __call__(self, img):
        return self.crop(img), self.crop(img)


def batches(steps, bs, tf):
    base = torch.rand(64, 3, 20, 20)
    for _ in range(steps):
        pairs = [tf(base[i]) for i in torch.randint(0, 64, (bs,))]
        yield torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


def main():
    torch.manual_seed(42)
    device = xm.xla_device()
    model = MoCo().to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for i, (a, b) in enumerate(batches(14, 8, TwoCrops(16))):
        logits, labels = model(a.to(device), b.to(device))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if i % 5 == 0:
            print(f"iter {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
