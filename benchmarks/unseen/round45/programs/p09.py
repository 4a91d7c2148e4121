"""Next-token training on mixed-length shell sessions, constant number of real tokens per update."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 13
VOCAB = 80
SEQ = 40
ROWS = 4
DIM = 32
TOKENS_PER_UPDATE = 640
UPDATES = 28
CLIP = 1.0


class SessionReader:
    """Yields fixed [ROWS, SEQ + 1] blocks; shards are stored from short to long sessions."""

    SHARDS = ((8, 2), (10, 2), (12, 2), (14, 3), (17, 3),
              (20, 3), (24, 4), (28, 4), (32, 4), (36, 4))
    BLOCKS_PER_SHARD = 24

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        while True:
            for mean, spread in self.SHARDS:
                for _ in range(self.BLOCKS_PER_SHARD):
                    yield self.block(mean, spread)

    def block(self, mean, spread):
        ids = np.zeros((ROWS, SEQ + 1), np.int64)
        for r in range(ROWS):
            n = int(np.clip(self.rng.normal(mean, spread), 4, SEQ)) + 1
            first = self.rng.integers(1, VOCAB)
            walk = np.cumsum(self.rng.integers(1, 4, n))
            ids[r, :n] = (first + walk) % (VOCAB - 1) + 1
        block = torch.from_numpy(ids)
        return block[:, :-1], block[:, 1:], int((ids[:, 1:] != 0).sum())


class ShellLM(nn.Module):
    """Embedding, gated causal convolution, readout."""

    def __init__(self, span=8):
        super().__init__()
        self.span = span
        self.tok = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.tok.weight, std=0.1)
        self.conv = nn.Conv1d(DIM, 2 * DIM, span)
        self.readout = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.tok(ids)
        h = self.conv(F.pad(x.transpose(1, 2), (self.span - 1, 0)))
        v, g = h.transpose(1, 2).chunk(2, -1)
        return self.readout(x + torch.tanh(v) * torch.sigmoid(g))


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model, device
        decay = [p for p in model.parameters() if p.dim() > 1]
        plain = [p for p in model.parameters() if p.dim() <= 1]
        self.opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                                      {"params": plain, "weight_decay": 0.0}], lr=3e-3)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, 3e-3, total_steps=UPDATES + 1,
                                                         pct_start=0.2)

    def micro(self, src, tgt):
        logits = self.model(src.to(self.device))
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten().to(self.device),
                               ignore_index=0, reduction="sum")
        (loss / TOKENS_PER_UPDATE).backward()
        return loss.detach()

    def update(self, stream):
        self.opt.zero_grad(set_to_none=True)
        seen, nll = 0, torch.zeros((), device=self.device)
        while seen < TOKENS_PER_UPDATE:
            src, tgt, n = next(stream)
            nll += self.micro(src, tgt)
            seen += n
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.opt.step()
        self.sched.step()
        xm.mark_step()
        return nll, seen


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    trainer = Trainer(ShellLM().to(device), device)
    stream = iter(SessionReader(SEED))
    total = 0
    for u in range(1, UPDATES + 1):
        nll, seen = trainer.update(stream)
        total += seen
        if u % 7 == 0:
            print(f"update {u:3d} tokens {total:6d} nll/token {nll.item() / seen:.4f}")


if __name__ == "__main__":
    main()
