"""Character language model (GRU cells unrolled) with gradient clipping, warm-up and a log line every few steps."""
import csv
import io
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TEXT = ("the quick brown fox jumps over the lazy dog and then it sleeps under the old tree while "
        "the rain falls on the roof of the small house near the river that runs to the sea. ") * 4
CHARS = sorted(set(TEXT))
IDS = torch.tensor([CHARS.index(c) for c in TEXT])
SEQ, BATCH = 16, 8


class CharGRU(nn.Module):
    def __init__(self, vocab, width=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)
        self.width = width

    def forward(self, ids):
        h = torch.zeros(ids.shape[0], self.width, device=ids.device)
        outs = []
        for t in range(ids.shape[1]):
            h = self.cell(self.emb(ids[:, t]), h)
            outs.append(h)
        return self.out(torch.stack(outs, 1))


class CsvLogger:
    def __init__(self):
        self.buf = io.StringIO()
        self.writer = csv.writer(self.buf)
        self.start = time.time()

    def log(self, step, **values):
        self.writer.writerow([step, f"{time.time() - self.start:.1f}"] + [f"{v:.4f}" for v in values.values()])
        print(f"[{step:03d}] " + " ".join(f"{k}={v:.4f}" for k, v in values.items()))


def batches(steps, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        start = torch.randint(len(IDS) - SEQ - 1, (BATCH,), generator=g)
        win = IDS[start[:, None] + torch.arange(SEQ + 1)]
        yield win[:, :-1], win[:, 1:]


def global_norm(params):
    return torch.stack([p.grad.square().sum() for p in params]).sum().sqrt()


def train(steps=16, log_every=5):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = CharGRU(len(CHARS)).to(dev)
    params = list(model.parameters())
    opt = torch.optim.RMSprop(params, lr=3e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(0.9, (s + 1) / 9))
    logger = CsvLogger()
    torch_xla.sync()
    for step, (x, y) in enumerate(batches(steps, 7), 1):
        logits = model(x.to(dev))
        loss = F.cross_entropy(logits.flatten(0, 1), y.to(dev).flatten())
        opt.zero_grad()
        loss.backward()
        norm = global_norm(params)
        if step % log_every == 0:
            logger.log(step, loss=loss.item(), grad_norm=norm.item(), lr=warm.get_last_lr()[0])
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(scale)
        xm.optimizer_step(opt)
        warm.step()
        torch_xla.sync()
    xm.master_print("rows", logger.buf.getvalue().count("\n"))


if __name__ == "__main__":
    train()
