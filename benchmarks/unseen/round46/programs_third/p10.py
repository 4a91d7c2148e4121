"""Anomaly scores for machine logs with a small Llama.

A short fit on normal traffic, then a live stream is scored chunk by chunk. The
model keeps the attention cache of the stream, a chunk is judged in the context
of everything that went before it.
"""
import logging
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    get_cosine_schedule_with_warmup,
    set_seed,
)

logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger("logstream")

VOCAB = 64
TEMPLATES = 12
BOS = 0
SEQ = 48
CHUNK = 8


class LogSource:
    """Events are short fixed templates; the next template follows a Markov chain."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.templates = [self.rng.integers(4, VOCAB, size=self.rng.integers(3, 7)).tolist()
                          for _ in range(TEMPLATES)]
        self.chain = self.rng.dirichlet(np.full(TEMPLATES, 0.25), size=TEMPLATES)

    def tokens(self, n, fault_at=()):
        out, cur = [BOS], int(self.rng.integers(TEMPLATES))
        while len(out) < n:
            out.extend(self.templates[cur])
            cur = int(self.rng.choice(TEMPLATES, p=self.chain[cur]))
        out = np.asarray(out[:n])
        for at in fault_at:
            out[at:at + CHUNK] = self.rng.integers(4, VOCAB, size=CHUNK)
        return torch.from_numpy(out)

    def batch(self, size):
        return torch.stack([self.tokens(SEQ) for _ in range(size)])


def build_model():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=BOS,
        pad_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    ))


def fit(model, source, device, steps=16, batch=8, lr=3e-3):
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    sched = get_cosine_schedule_with_warmup(opt, 4, steps)
    for step in range(steps):
        ids = source.batch(batch).to(device)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 8 == 0 or step == steps - 1:
            logger.info("fit %2d  loss %.4f  lr %.1e", step, loss.item(), sched.get_last_lr()[0])


class StreamScorer:
    def __init__(self, model, device, smooth=0.8):
        self.model = model.eval()
        self.device = device
        self.smooth = smooth
        self.cache = DynamicCache(config=model.config)
        self.last = torch.zeros(1, VOCAB).to(device)
        self.level = None
        self.position = 0

    @torch.no_grad()
    def score(self, chunk):
        ids = chunk[None].to(self.device)
        position_ids = torch.arange(self.position, self.position + CHUNK)[None].to(self.device)
        out = self.model(input_ids=ids, position_ids=position_ids,
                         past_key_values=self.cache, use_cache=True)
        logits = torch.cat([self.last, out.logits[0, :-1]])
        nll = F.cross_entropy(logits, ids[0], reduction="none")
        self.last = out.logits[0, -1:]
        self.position += CHUNK
        torch_xla.sync()
        return nll.cpu()

    def observe(self, chunk):
        nll = self.score(chunk).mean().item()
        surprise = 0.0 if self.level is None else nll - self.level
        keep = self.smooth if self.level is not None else 0.0
        self.level = keep * self.level + (1 - keep) * nll if self.level is not None else nll
        return nll, surprise


def main():
    set_seed(29)
    device = torch_xla.device()
    source = LogSource(seed=29)
    model = build_model().to(device)
    fit(model, source, device)

    n_chunks = 20
    stream = source.tokens(n_chunks * CHUNK, fault_at=(8 * CHUNK, 15 * CHUNK))
    scorer = StreamScorer(model, device)
    alarms = []
    for i, chunk in enumerate(stream.split(CHUNK)):
        nll, surprise = scorer.observe(chunk)
        if i > 3 and surprise > 0.6:
            alarms.append(i)
        if i % 4 == 0:
            logger.info("chunk %2d  nll %.3f  level %.3f", i, nll, scorer.level)
    logger.info("alarms at chunks %s", alarms)


if __name__ == "__main__":
    main()
