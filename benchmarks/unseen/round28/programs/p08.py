import copy
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Keyword spotting: masked-frame pretraining -> linear probe -> full fine-tuning with weight averaging.

BINS, FRAMES, WORDS = 16, 20, 4


class SpectroBank:
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, WORDS, (n,), generator=g)
        t = torch.arange(FRAMES).float()
        f = torch.arange(BINS).float()
        pitch = 4 + 2.5 * self.label.float()[:, None] + torch.sin(
            2 * math.pi * t / FRAMES + torch.rand(n, 1, generator=g))
        spec = torch.exp(-(f[None, None] - pitch[..., None]) ** 2 / 3)
        self.spec = spec + 0.2 * torch.randn(n, FRAMES, BINS, generator=g)
        self.gen = g

    def batch(self, bs):
        i = torch.randint(0, len(self.label), (bs,), generator=self.gen)
        return self.spec[i], self.label[i]

    def ordered(self, bs):
        for s in range(0, len(self.label) - bs + 1, bs):
            yield self.spec[s:s + bs], self.label[s:s + bs]


class Backbone(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.inp = nn.Linear(BINS, dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        h = h + F.gelu(self.conv(h.transpose(1, 2)).transpose(1, 2))
        return self.norm(h)


class KWS(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.backbone = Backbone(dim)
        self.decoder = nn.Linear(dim, BINS)
        self.classifier = nn.Linear(dim, WORDS)

    def reconstruct(self, x):
        return self.decoder(self.backbone(x))

    def forward(self, x):
        return self.classifier(self.backbone(x).mean(1))


def pretrain(model, bank, device, steps):
    params = list(model.backbone.parameters()) + list(model.decoder.parameters())
    opt = torch.optim.AdamW(params, lr=3e-3)
    for i in range(steps):
        spec, _ = bank.batch(16)
        mask = (torch.rand(16, FRAMES, 1) < 0.3).float()
        spec, mask = spec.to(device), mask.to(device)
        rec = model.reconstruct(spec * (1 - mask))
        loss = ((rec - spec) ** 2 * mask).sum() / (mask.sum() * BINS + 1e-6)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(f"pretrain: {loss.item():.4f}")


def probe(model, bank, device, steps):
    model.backbone.requires_grad_(False)
    opt = torch.optim.SGD(model.classifier.parameters(), lr=0.2, momentum=0.9)
    for i in range(steps):
        spec, label = bank.batch(16)
        loss = F.cross_entropy(model(spec.to(device)), label.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    model.backbone.requires_grad_(True)
    print(f"probe: {loss.item():.4f}")


class WeightAverage:
    def __init__(self, model, device):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.count = torch.zeros(()).to(device)

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        for a, p in zip(self.model.parameters(), model.parameters()):
            a.add_((p - a) / self.count)
        torch_xla.sync()


@torch.no_grad()
def accuracy(net, bank, device):
    good = torch.zeros(()).to(device)
    n = 0
    for spec, label in bank.ordered(16):
        good += (net(spec.to(device)).argmax(1) == label.to(device)).sum()
        n += 16
        torch_xla.sync()
    return good.item() / n


def finetune(model, bank, valid, device, epochs, steps):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 20))
    average = WeightAverage(model, device)
    for epoch in range(epochs):
        for _ in range(steps):
            spec, label = bank.batch(16)
            loss = F.cross_entropy(model(spec.to(device)), label.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            warm.step()
            torch_xla.sync()
        average.update(model)
        print(f"finetune {epoch}: {loss.item():.4f} "
              f"acc {accuracy(model, valid, device):.3f} avg {accuracy(average.model, valid, device):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    start = time.time()
    dev = torch_xla.device()
    train_bank, valid_bank = SpectroBank(320, 1), SpectroBank(64, 2)
    kws = KWS().to(dev)
    pretrain(kws, train_bank, dev, steps=40)
    probe(kws, train_bank, dev, steps=30)
    finetune(kws, train_bank, valid_bank, dev, epochs=9, steps=20)
    print(f"done in {time.time() - start:.1f}s")
