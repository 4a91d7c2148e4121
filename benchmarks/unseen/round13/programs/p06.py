"""Frame-level phone recognition with a small conformer-like encoder."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.nn.utils.rnn import pad_sequence

MELS, PHONES, IGNORE = 20, 12, -100


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads=2, kernel=5):
        super().__init__()
        self.norm_a = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm_c = nn.LayerNorm(dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.pointwise = nn.Linear(dim, dim)
        self.norm_f = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim * 2), nn.SiLU(), nn.Linear(dim * 2, dim))

    def forward(self, x, pad_mask):
        h = self.norm_a(x)
        x = x + self.attn(h, h, h, key_padding_mask=pad_mask, need_weights=False)[0]
        h = self.norm_c(x).transpose(1, 2)
        x = x + self.pointwise(F.silu(self.depthwise(h)).transpose(1, 2))
        return x + 0.5 * self.ff(self.norm_f(x))


class SpeechEncoder(nn.Module):
    def __init__(self, dim=24, layers=3, layerdrop=0.25):
        super().__init__()
        self.inp = nn.Linear(MELS, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim) for _ in range(layers))
        self.layerdrop = layerdrop
        self.out = nn.Linear(dim, PHONES)

    def forward(self, feats, pad_mask):
        x = self.inp(feats)
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x, pad_mask)
        return self.out(x)


class Utterances(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            frames = int(torch.randint(30, 70, (1,), generator=gen))
            phones = torch.randint(0, PHONES, (frames,), generator=gen)
            feats = torch.randn(frames, MELS, generator=gen)
            feats[torch.arange(frames), phones] += 2.0
            self.items.append((feats, phones))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    feats = pad_sequence([f for f, _ in items], batch_first=True)
    phones = pad_sequence([p for _, p in items], batch_first=True, padding_value=IGNORE)
    return feats, phones, phones.eq(IGNORE)


class LossPrinter:
    def __init__(self, every):
        self.every = every

    def on_step(self, trainer, step, loss):
        if step % self.every == 0:
            print(f"step {step} loss {loss.item():.4f} lr {trainer.sched.get_last_lr()[0]:.2e}")


class Trainer:
    def __init__(self, model, loader, callbacks):
        self.device = torch_xla.device()
        self.model = model.to(self.device)
        self.loader, self.callbacks = loader, callbacks
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: (s + 2) / 8 if s < 5 else 0.9)

    def fit(self, epochs):
        step = 0
        self.model.train()
        for _ in range(epochs):
            for batch in self.loader:
                feats, phones, mask = (t.to(self.device) for t in batch)
                logits = self.model(feats, mask)
                loss = F.cross_entropy(logits.flatten(0, 1), phones.flatten(), ignore_index=IGNORE)
                self.opt.zero_grad(set_to_none=False)
                loss.backward()
                self.opt.step()
                self.sched.step()
                torch_xla.sync()
                for cb in self.callbacks:
                    cb.on_step(self, step, loss)
                step += 1


def main():
    torch.manual_seed(1)
    random.seed(1)
    loader = torch.utils.data.DataLoader(Utterances(28, seed=4), batch_size=4, shuffle=True,
                                         drop_last=True, collate_fn=collate)
    Trainer(SpeechEncoder(), loader, [LossPrinter(4)]).fit(epochs=2)
    print("finished")


if __name__ == "__main__":
    main()
