"""Keyword spotting for a microcontroller: range-aware training before int8 export."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

WORDS = 6
COEFFS = 13
FRAMES = 24
BATCH = 16
EPOCHS = 9
STEPS_PER_EPOCH = 5


class WordSource:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        proto = torch.Generator().manual_seed(0)
        self.templates = torch.randn(WORDS, COEFFS, FRAMES, generator=proto)

    def batch(self):
        y = torch.randint(0, WORDS, (BATCH,), generator=self.gen)
        gain = 0.5 + torch.rand(BATCH, 1, 1, generator=self.gen)
        noise = torch.randn(BATCH, COEFFS, FRAMES, generator=self.gen)
        return self.templates[y] * gain + 1.5 * noise, y


class DSBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv1d(c, c, 5, padding=2, groups=c, bias=False)
        self.pw = nn.Conv1d(c, c, 1)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.pw(self.dw(x)))


class KeywordNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.stem = nn.Conv1d(COEFFS, c, 5, stride=2, padding=2)
        self.act = nn.ReLU()
        self.blocks = nn.Sequential(DSBlock(c), DSBlock(c))
        self.fc = nn.Linear(c, WORDS)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = self.blocks(x)
        return self.fc(x.mean(-1))


class RangeObserver:
    """Moving average of every activation's maximum, read when the scales are exported."""

    def __init__(self, device, decay=0.95):
        self.device = device
        self.decay = decay
        self.peak = {}

    def watch(self, model):
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                self.peak.setdefault(name, torch.zeros((), device=self.device))
                module.register_forward_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(module, args, output):
            if module.training:
                top = output.detach().max()
                self.peak[name] = self.decay * self.peak[name] + (1 - self.decay) * top
        return hook

    def scales(self):
        return {k: max(v.item(), 1e-6) / 127.0 for k, v in self.peak.items()}


class Session:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.observer = RangeObserver(device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, gamma=0.5)

    def train_epoch(self, source):
        self.model.train()
        self.observer.watch(self.model)
        total = torch.zeros((), device=self.device)
        for _ in range(STEPS_PER_EPOCH):
            x, y = source.batch()
            x, y = x.to(self.device), y.to(self.device)
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            torch_xla.sync()
        self.scheduler.step()
        return total.item() / STEPS_PER_EPOCH

    @torch.no_grad()
    def accuracy(self, source, batches=2):
        self.model.eval()
        hits = torch.zeros((), device=self.device)
        for _ in range(batches):
            x, y = source.batch()
            hits += (self.model(x.to(self.device)).argmax(1) == y.to(self.device)).sum()
            torch_xla.sync()
        return hits.item() / (batches * BATCH)


def export_size(model, scales):
    weights = sum(p.numel() for p in model.parameters())
    return weights + 4 * len(scales)


def main():
    torch.manual_seed(71)
    device = torch_xla.device()
    xm.set_rng_state(71, device)
    model = KeywordNet().to(device)
    session = Session(model, device)
    torch_xla.sync()

    train, val = WordSource(72), WordSource(73)
    for epoch in range(EPOCHS):
        loss = session.train_epoch(train)
        acc = session.accuracy(val)
        print(f"epoch {epoch:2d}  loss {loss:.4f}  acc {acc:.3f}")

    scales = session.observer.scales()
    for name, scale in scales.items():
        print(f"{name:16s} scale {scale:.5f}")
    print("export bytes:", export_size(model, scales))


if __name__ == "__main__":
    main()
