"""Contrastive image-text pretraining with a sigmoid (SigLIP) objective on
rendered shapes and templated captions; easy pairs are focused away over time."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0),
          "white": (1, 1, 1), "purple": (0.6, 0, 0.8)}
SHAPES = ["square", "disc", "cross", "bar"]
PLACES = ["top left", "top right", "bottom left", "bottom right"]
OPENERS = ["", "a photo of", "this is", "we can see", "here you find a picture showing"]
TAILS = ["", "on a dark background", "as drawn by hand", "in a very small image with some noise"]
WORDS = sorted({w for s in list(COLORS) + SHAPES + PLACES + OPENERS + TAILS
                for w in s.split()} | {"a", "in", "the", "and"})
STOI = {w: i + 2 for i, w in enumerate(WORDS)}
PAD, CLS = 0, 1
CONTEXT = 48
SIZE = 16
STEPS = 40


def tokenize(text):
    return [CLS] + [STOI[w] for w in text.split()][:CONTEXT - 1]


def draw(canvas, shape, color, place):
    r0 = 0 if place.startswith("top") else SIZE // 2
    c0 = 0 if place.endswith("left") else SIZE // 2
    yy, xx = np.mgrid[0:8, 0:8] - 3.5
    mask = {"square": (abs(yy) < 3) & (abs(xx) < 3), "disc": yy ** 2 + xx ** 2 < 10,
            "cross": (abs(yy) < 1.2) | (abs(xx) < 1.2), "bar": abs(yy) < 1.6}[shape]
    for ch in range(3):
        canvas[ch, r0:r0 + 8, c0:c0 + 8][mask] = COLORS[color][ch]


class Scenes(Dataset):
    def __init__(self, n, seed):
        rnd = random.Random(seed)
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            canvas = rng.normal(0, 0.1, (3, SIZE, SIZE)).astype(np.float32)
            parts = []
            for place in rnd.sample(PLACES, rnd.choice([1, 1, 1, 2, 2, 3, 4])):
                color, shape = rnd.choice(list(COLORS)), rnd.choice(SHAPES)
                draw(canvas, shape, color, place)
                parts.append(f"a {color} {shape} in the {place}")
            text = " ".join([rnd.choice(OPENERS), " and ".join(parts), rnd.choice(TAILS)])
            self.items.append((torch.from_numpy(canvas), tokenize(text)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    images = torch.stack([img for img, _ in batch])
    ids = [torch.tensor(tok) for _, tok in batch]
    ids = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    return images, ids


class TextTower(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.tok = nn.Embedding(len(WORDS) + 2, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(CONTEXT, dim) * 0.02)
        self.mix = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.proj = nn.Linear(dim, out, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:ids.shape[1]]
        h = self.norm1(x)
        x = x + self.mix(h, h, h, key_padding_mask=ids.eq(PAD), need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.proj(x[:, 0])


class ImageTower(nn.Module):
    def __init__(self, dim, out, patch=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.pos = nn.Parameter(torch.randn((SIZE // patch) ** 2, dim) * 0.02)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(),
                                 nn.Linear(2 * dim, dim))
        self.proj = nn.Linear((SIZE // patch) ** 2 * dim, out, bias=False)

    def forward(self, img):
        x = F.unfold(img, self.patch, stride=self.patch).transpose(1, 2)
        x = self.embed(x) + self.pos
        return self.proj((x + self.mlp(x)).flatten(1))


class SigLIP(nn.Module):
    def __init__(self, dim=32, out=32):
        super().__init__()
        self.image, self.text = ImageTower(dim, out), TextTower(dim, out)
        self.log_scale = nn.Parameter(torch.tensor(2.3))
        self.bias = nn.Parameter(torch.tensor(-4.0))

    def forward(self, img, ids):
        u = F.normalize(self.image(img), dim=-1)
        v = F.normalize(self.text(ids), dim=-1)
        return self.log_scale.clamp(max=4.6).exp() * u @ v.t() + self.bias


def pair_loss(logits, gamma):
    sign = 2 * torch.eye(logits.shape[0], device=logits.device) - 1
    p_wrong = torch.sigmoid(-sign * logits).clamp(1e-6, 1.0)
    return -(p_wrong ** gamma * F.logsigmoid(sign * logits)).sum(1).mean()


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(Scenes(8 * STEPS, 3), batch_size=8, shuffle=True, drop_last=True,
                        collate_fn=collate)
    model = SigLIP().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.05)

    for step, (img, ids) in enumerate(loader):
        gamma = 2.0 * min(1.0, (step + 1) / (0.8 * STEPS))
        logits = model(img.to(device), ids.to(device))
        loss = pair_loss(logits, gamma)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            hit = (logits.argmax(1).cpu() == torch.arange(len(img))).float().mean()
            print(f"step {step + 1} gamma {gamma:.2f} loss {loss.item():.4f} in-batch acc {hit:.2f}")


if __name__ == "__main__":
    main()
