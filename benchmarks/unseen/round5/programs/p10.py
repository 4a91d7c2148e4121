"""Streaming speech recogniser (inference): chunked encoder with left context, greedy CTC."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ALPHABET = "_abcdefghijklmnopqrstuvwxyz "


@dataclass
class StreamConfig:
    mels: int = 20
    dim: int = 32
    heads: int = 4
    layers: int = 2
    chunk: int = 8
    left: int = 16
    max_frames: int = 4000
    sessions: tuple = (14, 22, 48)
    hop_ms: int = 40


def sinusoids(length, dim):
    pos = torch.arange(length).float()[:, None]
    freq = torch.exp(-math.log(1e4) * torch.arange(0, dim, 2).float() / dim)
    return torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], dim=1)


class ChunkLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        d = cfg.dim
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def split(self, x):
        return x.view(x.shape[0], self.cfg.heads, -1).transpose(0, 1)

    def forward(self, x, context):
        h = self.n1(x)
        window = torch.cat([context, h], dim=0)
        k, v = self.kv(window).chunk(2, dim=-1)
        att = self.split(self.q(h)) @ self.split(k).transpose(1, 2)
        att = torch.softmax(att / math.sqrt(self.cfg.dim / self.cfg.heads), dim=-1)
        y = (att @ self.split(v)).transpose(0, 1).reshape(x.shape)
        x = x + self.o(y)
        return x + self.ff(self.n2(x)), window[-self.cfg.left:]


class StreamingEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.inp = nn.Linear(cfg.mels, cfg.dim)
        self.register_buffer("positions", sinusoids(cfg.max_frames, cfg.dim))
        self.layers = nn.ModuleList(ChunkLayer(cfg) for _ in range(cfg.layers))
        self.out = nn.Linear(cfg.dim, len(ALPHABET))

    def forward(self, chunk, contexts, frame):
        x = self.inp(chunk) + self.positions[frame:frame + self.cfg.chunk]
        new = []
        for layer, context in zip(self.layers, contexts):
            x, context = layer(x, context)
            new.append(context)
        return F.log_softmax(self.out(x), dim=-1), new


class Session:
    """State of one open microphone."""

    def __init__(self, model, cfg, device):
        self.model, self.cfg, self.device = model, cfg, device
        self.contexts = [torch.zeros(cfg.left, cfg.dim).to(device) for _ in range(cfg.layers)]
        self.frame, self.last, self.text = 0, 0, []

    @torch.no_grad()
    def feed(self, mel):
        logp, self.contexts = self.model(mel.to(self.device), self.contexts, self.frame)
        best = logp.argmax(-1)
        confidence = logp.amax(-1).mean()
        torch_xla.sync()
        self.frame += self.cfg.chunk
        for token in best.tolist():
            if token not in (0, self.last):
                self.text.append(ALPHABET[token])
            self.last = token
        return confidence.item()


def microphone(cfg, chunks, seed):
    rng = np.random.default_rng(seed)
    state = rng.normal(size=cfg.mels)
    for _ in range(chunks):
        rows = []
        for _ in range(cfg.chunk):
            state = 0.8 * state + rng.normal(size=cfg.mels)
            rows.append(state)
        yield torch.tensor(np.array(rows), dtype=torch.float32)


def main(cfg=StreamConfig()):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = StreamingEncoder(cfg).to(device).eval()
    for number, chunks in enumerate(cfg.sessions):
        session, scores = Session(model, cfg, device), []
        for mel in microphone(cfg, chunks, number):
            scores.append(session.feed(mel))
        seconds = session.frame * cfg.hop_ms / 1000
        print(f"session {number}: {seconds:.1f} s, confidence {sum(scores) / len(scores):.3f}, "
              f"{''.join(session.text)[:30]!r}", flush=True)


if __name__ == "__main__":
    main()
