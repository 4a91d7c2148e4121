"""HuBERT-style masked unit prediction on filterbank frames."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Config:
    n_mels = 40
    dim = 48
    ffn = 96
    heads = 4
    layers = 2
    n_units = 50
    mask_prob = 0.08
    mask_length = 5
    layerdrop = 0.2
    logit_temp = 0.1
    final_dim = 32


class ConvFrontend(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv1 = nn.Conv1d(cfg.n_mels, cfg.dim, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv1d(cfg.dim, cfg.dim, 3, stride=1, padding=1, bias=False)
        self.norm = nn.RMSNorm(cfg.dim)

    def forward(self, x):
        x = F.silu(self.conv1(x))
        x = F.silu(self.conv2(x))
        return self.norm(x.transpose(1, 2))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.fc1 = nn.Linear(cfg.dim, cfg.ffn, bias=False)
        self.fc2 = nn.Linear(cfg.ffn, cfg.dim, bias=False)
        self.norm1 = nn.RMSNorm(cfg.dim)
        self.norm2 = nn.RMSNorm(cfg.dim)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        att = att.masked_fill(pad[:, None, None, :], -1e4).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, d)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.fc2(F.relu(self.fc1(x))))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.pos_conv = nn.Conv1d(cfg.dim, cfg.dim, 7, padding=3, groups=4)
        self.layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.layers))
        self.norm = nn.RMSNorm(cfg.dim)
        self.layerdrop = cfg.layerdrop

    def forward(self, x, pad):
        x = x.masked_fill(pad[..., None], 0.0)
        x = x + F.silu(self.pos_conv(x.transpose(1, 2))).transpose(1, 2)
        x = self.norm(x)
        for layer in self.layers:
            dropout_probability = np.random.random()
            if not self.training or dropout_probability > self.layerdrop:
                x = layer(x, pad)
        return x


class Hubert(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.frontend = ConvFrontend(cfg)
        self.mask_emb = nn.Parameter(torch.rand(cfg.dim))
        self.encoder = Encoder(cfg)
        self.final_proj = nn.Linear(cfg.dim, cfg.final_dim)
        self.label_embs = nn.Parameter(torch.rand(cfg.n_units, cfg.final_dim))

    def forward(self, feats, units, mask, pad):
        x = self.frontend(feats)
        x = torch.where(mask[..., None], self.mask_emb, x)
        x = self.final_proj(self.encoder(x, pad))
        logits = F.normalize(x, dim=-1) @ F.normalize(self.label_embs, dim=-1).t()
        logp = F.log_softmax(logits / self.cfg.logit_temp, dim=-1)
        nll = -logp.gather(-1, units[..., None]).squeeze(-1)
        w = (mask & ~pad).to(nll.dtype)
        return (nll * w).sum() / w.sum().clamp(min=1.0)


def span_mask(rng, lengths, t, cfg):
    mask = np.zeros((len(lengths), t), dtype=bool)
    for i, n in enumerate(lengths):
        starts = rng.choice(n - cfg.mask_length, size=max(1, int(cfg.mask_prob * n)), replace=False)
        for s in starts:
            mask[i, s:s + cfg.mask_length] = True
    return mask


def batches(cfg, bs=4, t=64):
    rng = np.random.default_rng(11)
    while True:
        feats = rng.standard_normal((bs, cfg.n_mels, t)).astype(np.float32)
        units = rng.integers(0, cfg.n_units, (bs, t // 2))
        lengths = rng.integers(t // 4, t // 2, bs)
        pad = np.arange(t // 2)[None] >= lengths[:, None]
        yield tuple(map(torch.from_numpy, (feats, units, span_mask(rng, lengths, t // 2, cfg), pad)))


def main():
    torch.manual_seed(0)
    np.random.seed(1)
    cfg = Config()
    device = torch_xla.device()
    model = Hubert(cfg).to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = batches(cfg)
    for step in range(8):
        feats, units, mask, pad = (b.to(device) for b in next(data))
        opt.zero_grad()
        loss = model(feats, units, mask, pad)
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    main()
