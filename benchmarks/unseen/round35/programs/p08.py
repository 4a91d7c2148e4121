"""Adapt a character encoder to utterance routing, thawing it from the top down."""
import os
import string

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ALPHABET = " " + string.ascii_lowercase
MAX_CHARS = 32
ROUTES = {
    "billing": ("refund", "invoice", "charge", "payment"),
    "delivery": ("parcel", "courier", "tracking", "shipped"),
    "account": ("password", "login", "email", "profile"),
    "product": ("broken", "warranty", "battery", "manual"),
}
FILLERS = ("please", "help", "with", "my", "the", "about", "question", "again", "still", "no")


def make_utterances(count, seed):
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(len(ROUTES)))
        words = list(rng.choice(FILLERS, int(rng.integers(1, 4))))
        words.insert(int(rng.integers(len(words) + 1)), str(rng.choice(list(ROUTES.values())[label])))
        text = " ".join(words)
        if rng.random() < 0.3:
            cut = int(rng.integers(len(text)))
            text = text[:cut] + text[cut + 1 :]
        texts.append(text)
        labels.append(label)
    ids = np.zeros((count, MAX_CHARS), np.int64)
    for row, text in enumerate(texts):
        codes = [ALPHABET.index(c) + 1 for c in text[:MAX_CHARS]]
        ids[row, : len(codes)] = codes
    return ids, np.asarray(labels, np.int64)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5 + bias).softmax(dim=-1)
        x = x + self.proj((attn @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Router(nn.Module):
    def __init__(self, dim=32, depth=2, heads=2):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET) + 1, dim)
        self.position = nn.Parameter(0.02 * torch.randn(MAX_CHARS, dim))
        self.local = nn.Linear(3 * dim, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, len(ROUTES)))

    def forward(self, ids):
        mask = (ids > 0).float()
        x = F.pad(self.embed(ids) + self.position, (0, 0, 1, 1))
        x = F.gelu(self.local(torch.cat([x[:, :-2], x[:, 1:-1], x[:, 2:]], dim=-1)))
        bias = (1.0 - mask)[:, None, None, :] * -1e4
        for block in self.blocks:
            x = block(x, bias)
        pooled = (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp_min(1.0)
        return self.head(pooled)


def stage_modules(model):
    return [
        ("head", [model.head], 5e-3),
        ("last block", [model.head, model.blocks[-1]], 3e-3),
        ("everything", [model], 2e-3),
    ]


def enter_stage(model, modules, lr):
    model.requires_grad_(False)
    for module in modules:
        module.requires_grad_(True)
    params = [p for p in model.parameters() if p.requires_grad]
    for p in model.parameters():
        p.grad = None
    optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.985)
    return params, optimizer, scheduler


@torch.no_grad()
def accuracy(model, ids, labels, batch_size, device):
    model.eval()
    correct = torch.tensor(0, device=device)
    for lo in range(0, len(ids), batch_size):
        logits = model(torch.from_numpy(ids[lo : lo + batch_size]).to(device))
        correct += (logits.argmax(dim=1) == torch.from_numpy(labels[lo : lo + batch_size]).to(device)).sum()
        xm.mark_step()
    model.train()
    return correct.item() / len(ids)


def main(batch_size=32, stage_lengths=(8, 8, 54), eval_every=10):
    torch.manual_seed(29)
    rng = np.random.default_rng(29)
    device = torch_xla.device()
    train_ids, train_labels = make_utterances(512, seed=1)
    val_ids, val_labels = make_utterances(112, seed=2)
    model = Router().to(device)

    step = 0
    for (name, modules, lr), length in zip(stage_modules(model), stage_lengths):
        params, optimizer, scheduler = enter_stage(model, modules, lr)
        print(f"training {name}: {sum(p.numel() for p in params)} parameters")
        for _ in range(length):
            step += 1
            rows = rng.integers(0, len(train_ids), batch_size)
            ids = torch.from_numpy(train_ids[rows]).to(device)
            labels = torch.from_numpy(train_labels[rows]).to(device)
            loss = F.cross_entropy(model(ids), labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            scheduler.step()
            xm.mark_step()
            if step % eval_every == 0:
                score = accuracy(model, val_ids, val_labels, batch_size, device)
                print(f"step {step:3d}  loss {loss.item():.4f}  val accuracy {score:.3f}")


if __name__ == "__main__":
    main()
