"""Adapting a frozen sequence classifier with AdaLoRA (peft)."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from peft import AdaLoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset

VOCAB, LENGTH, CLASSES = 64, 20, 3
STEPS, LOG = 16, 4


class Intents(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            y = rng.randrange(CLASSES)
            lo = 1 + 21 * y
            self.rows.append(([rng.randrange(lo, lo + 24) % VOCAB for _ in range(LENGTH)], y))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, y = self.rows[i]
        return torch.tensor(ids), y


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(d, d), nn.Linear(d, d)
        self.value, self.dense = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        b, l, d = x.shape
        split = lambda t: t.view(b, l, self.heads, d // self.heads).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        w = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        return self.dense((w @ v).transpose(1, 2).reshape(b, l, d))


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class IntentModel(nn.Module):
    def __init__(self, d=32, heads=4, depth=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.randn(LENGTH, d) * 0.02)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(depth))
        self.classifier = nn.Linear(d, CLASSES)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean(1))


def build(device):
    config = AdaLoraConfig(
        init_r=10, target_r=3, tinit=2, tfinal=3, deltaT=1, total_step=STEPS,
        lora_alpha=12, beta1=0.85, beta2=0.85,
        target_modules=["query"], modules_to_save=["classifier"])
    return get_peft_model(IntentModel(), config).to(device)


def main():
    torch.manual_seed(18)
    device = torch_xla.device()
    model = build(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=4e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=STEPS)
    loader = DataLoader(Intents(16 * STEPS, 18), batch_size=16, shuffle=True, drop_last=True)
    model.train()
    torch_xla.sync()

    for step, (ids, label) in enumerate(loader, start=1):
        logits = model(ids.to(device))
        loss = F.cross_entropy(logits, label.to(device))
        loss.backward()
        optimizer.step()
        scheduler.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        torch_xla.sync()
        if step % LOG == 0:
            print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
