"""Event-level music language model, trained with a fixed number of notes per update."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD = 0
VOCAB = 60
MAX_LEN = 32
MICRO_BATCH = 4
TOKENS_PER_UPDATE = 360
UPDATES = 32


class PieceDataset:
    """Random-walk melodies; songbooks differ a lot in how long their pieces are."""

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.pieces = []
        for _ in range(n // MICRO_BATCH):
            typical = rng.choice((5, 5, 6, 8, 12, 20, 30))
            for _ in range(MICRO_BATCH):
                length = max(4, min(MAX_LEN, typical + rng.randint(-3, 3)))
                pitch, notes = rng.randint(20, 40), []
                for _ in range(length):
                    pitch = min(VOCAB - 1, max(1, pitch + rng.choice((-2, -1, 1, 2))))
                    notes.append(pitch)
                self.pieces.append(notes)

    def micro_batches(self, seed):
        rng = random.Random(seed)
        starts = list(range(0, len(self.pieces), MICRO_BATCH))
        while True:
            rng.shuffle(starts)
            for s in starts:
                ids = torch.full((MICRO_BATCH, MAX_LEN), PAD, dtype=torch.long)
                for row, notes in enumerate(self.pieces[s:s + MICRO_BATCH]):
                    ids[row, :len(notes)] = torch.tensor(notes)
                yield ids


class CausalConv(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.left = kernel - 1
        self.conv = nn.Conv1d(dim, dim, kernel)

    def forward(self, x):
        return x + F.relu(self.conv(F.pad(x, (self.left, 0))))


class MusicLM(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.mix = CausalConv(dim, 5)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        x = self.mix(self.tok(ids).transpose(1, 2))
        return self.out(x.transpose(1, 2))


class Trainer:
    def __init__(self, model, batches, device, lr=3e-3):
        self.model = model
        self.batches = batches
        self.device = device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
        self.seen = 0

    def micro_step(self, ids):
        ids = ids.to(self.device)
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(),
                               ignore_index=PAD, reduction="sum")
        loss.backward()
        return loss.detach()

    def update(self):
        self.optimizer.zero_grad(set_to_none=False)
        tokens = 0
        nll = torch.zeros((), device=self.device)
        while tokens < TOKENS_PER_UPDATE:
            ids = next(self.batches)
            tokens += int((ids[:, 1:] != PAD).sum())
            nll += self.micro_step(ids)
        with torch.no_grad():
            for p in self.model.parameters():
                p.grad.div_(tokens)
        self.optimizer.step()
        torch_xla.sync()
        self.seen += tokens
        return nll.item() / tokens


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    xm.set_rng_state(3, device)
    data = PieceDataset(160, seed=4)
    model = MusicLM().to(device)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch_xla.sync()

    trainer = Trainer(model, data.micro_batches(seed=5), device)
    for i in range(UPDATES):
        nll = trainer.update()
        if (i + 1) % 5 == 0:
            print(f"update {i + 1:3d}  tokens {trainer.seen:6d}  nll/token {nll:.4f}")


if __name__ == "__main__":
    main()
