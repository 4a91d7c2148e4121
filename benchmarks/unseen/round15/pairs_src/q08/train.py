"""Clause type classification for contracts, adapting a (pretend) pretrained encoder."""
import logging
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl

logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True,
                    format="%(name)s | %(message)s")
log = logging.getLogger("clauses")

VOCAB, LENGTH, WIDTH, TYPES = 200, 24, 32, 6


class EncoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        a = torch.softmax(self.attn(x) @ x.transpose(1, 2) / WIDTH ** 0.5, dim=-1)
        x = self.ln1(x + a @ self.value(x))
        return self.ln2(x + self.ffn(x))


class ClauseModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(EncoderLayer(WIDTH) for _ in range(3))
        self.pool = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, TYPES)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.tanh(self.pool(x[:, 0])))


class Thaw:
    """Keeps the encoder fixed at first, then lets go of it from the top."""

    def __init__(self, model):
        self.model = model
        for p in model.parameters():
            p.requires_grad_(False)
        for part in (model.pool, model.head):
            part.requires_grad_(True)

    def epoch_begin(self, epoch):
        depth = min(epoch, len(self.model.layers))
        for layer in list(self.model.layers)[len(self.model.layers) - depth:]:
            layer.requires_grad_(True)
        n = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        log.info("epoch %d trains %d weights", epoch, n)


def clauses(n=160):
    kind = torch.randint(0, TYPES, (n,))
    ids = torch.randint(TYPES * 10, VOCAB, (n, LENGTH))
    where = torch.rand(n, LENGTH) < 0.3
    cue = kind[:, None] * 10 + torch.randint(0, 10, (n, LENGTH))
    return TensorDataset(torch.where(where, cue, ids), kind)


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    model = ClauseModel().to(device)
    thaw = Thaw(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    crit = nn.CrossEntropyLoss()
    loader = pl.MpDeviceLoader(DataLoader(clauses(), batch_size=16, shuffle=True), device)
    for epoch in range(4):
        thaw.epoch_begin(epoch)
        total = torch.zeros((), device=device)
        for ids, kind in loader:
            opt.zero_grad(set_to_none=True)
            loss = crit(model(ids), kind)
            loss.backward()
            opt.step()
            total = total + loss.detach()
        log.info("epoch %d loss %.4f compilations %s", epoch, total.item() / len(loader),
                 met.counter_value("UncachedCompile"))


if __name__ == "__main__":
    main()
