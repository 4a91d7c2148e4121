"""Streaming phoneme tagger: long utterances are consumed chunk by chunk with carried state."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("stream")


@dataclass
class Config:
    seed: int = 13
    mels: int = 12
    dim: int = 24
    phones: int = 7
    batch_size: int = 4
    chunk: int = 10
    chunks_per_utterance: int = 8
    utterances: int = 3
    lr: float = 5e-2


class SyntheticSpeech:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(cfg.seed)
        self.codebook = torch.randn(cfg.phones, cfg.mels, generator=self.g)

    def utterance(self):
        c = self.cfg
        frames = c.chunk * c.chunks_per_utterance
        segments = torch.randint(0, c.phones, (c.batch_size, frames // 5), generator=self.g)
        labels = segments.repeat_interleave(5, 1)
        mel = self.codebook[labels] + 0.3 * torch.randn(c.batch_size, frames, c.mels, generator=self.g)
        return mel, labels

    def chunks(self, mel, labels):
        for start in range(0, mel.shape[1], self.cfg.chunk):
            yield start, mel[:, start:start + self.cfg.chunk], labels[:, start:start + self.cfg.chunk]


class PositionCode(nn.Module):
    """Sinusoidal code of absolute frame numbers."""

    def __init__(self, dim):
        super().__init__()
        inv = 10000 ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv)

    def forward(self, x, offset):
        t = torch.arange(offset, offset + x.shape[1], device=x.device, dtype=x.dtype)
        angle = t[:, None] * self.inv_freq
        return torch.cat([angle.sin(), angle.cos()], -1)


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.mels, cfg.dim)
        self.pos = PositionCode(cfg.dim)
        self.conv = nn.Conv1d(cfg.dim, cfg.dim, 3, padding=1)
        self.cell = nn.Linear(2 * cfg.dim, cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.phones)

    def forward(self, mel, carry, offset):
        h = self.inp(mel)
        h = h + self.pos(h, offset)
        h = F.gelu(self.conv(h.transpose(1, 2)).transpose(1, 2))
        wide = torch.cat([h, carry[:, None].expand_as(h)], -1)
        h = torch.tanh(self.cell(wide))
        return self.out(h), h.mean(1)


def train_utterance(model, speech, opt, device, cfg):
    mel, labels = speech.utterance()
    carry = torch.zeros(cfg.batch_size, cfg.dim).to(device)
    errors = []
    for offset, x, y in speech.chunks(mel, labels):
        x, y = x.to(device), y.to(device)
        logits, state = model(x, carry, offset)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        carry = state.detach()
        err = (logits.argmax(-1) != y).float().mean()
        xm.mark_step()
        errors.append(err)
    return sum(e.item() for e in errors) / len(errors)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = Tagger(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    speech = SyntheticSpeech(cfg)
    for n in range(cfg.utterances):
        log.info("utterance %d frame error %.3f", n, train_utterance(model, speech, opt, device, cfg))


if __name__ == "__main__":
    main()
