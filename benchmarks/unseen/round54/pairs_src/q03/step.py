"""CTC fine-tuning of a small speech encoder (character vocabulary)."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 30


class ConvSubsampling(nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, dim, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return x.transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)

    def attend(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5 + bias
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x, bias):
        x = x + self.attend(self.norm1(x), bias)
        return x + self.fc2(F.relu(self.fc1(self.norm2(x))))


class SpeechEncoder(nn.Module):
    def __init__(self, n_mels=16, dim=32, heads=4, ffn=64, layers=2, max_frames=16,
                 layerdrop=0.3):
        super().__init__()
        self.layerdrop = layerdrop
        self.feat = ConvSubsampling(n_mels, dim)
        self.pos = nn.Parameter(torch.randn(max_frames, dim) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, ffn) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, mel, lengths):
        x = self.feat(mel)
        frames = (lengths + 3) // 4
        valid = torch.arange(x.size(1), device=x.device) < frames.unsqueeze(1)
        bias = (~valid).float()[:, None, None, :] * -1e4
        x = x + self.pos[:x.size(1)]
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x, bias)
        return self.head(self.norm(x)), valid


def framewise_loss(logits, valid, target):
    """Targets are aligned to frames beforehand (forced alignment)."""
    ce = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    w = valid.float()
    return (ce * w).sum() / w.sum()


def synthetic(n, batch=4, frames=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield (torch.randn(batch, 16, frames, generator=g),
               torch.randint(frames // 2, frames + 1, (batch,), generator=g),
               torch.randint(0, VOCAB, (batch, frames // 4), generator=g))


def main():
    random.seed(11)
    torch.manual_seed(11)
    device = torch_xla.device()
    model = SpeechEncoder().to(device).train()
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    decay = [p for p in model.parameters() if p.ndim >= 2]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 1e-4},
                           {"params": no_decay, "weight_decay": 0.0}],
                          lr=0.05, momentum=0.9)
    for step, (mel, lengths, target) in enumerate(synthetic(10)):
        mel, lengths, target = mel.to(device), lengths.to(device), target.to(device)
        logits, valid = model(mel, lengths)
        loss = framewise_loss(logits, valid, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
