"""Next-token model on support tickets; each update covers a fixed token budget."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 32
MAX_LEN = 12
MICRO_BATCH = 4
TOKENS_PER_UPDATE = 150
UPDATES = 32


class TicketStream:
    """Endless stream of (ids, mask, token count) micro-batches padded to MAX_LEN."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.mean_len = 6.0

    def _ticket(self):
        n = int(np.clip(self.rng.poisson(self.mean_len), 2, MAX_LEN))
        start = self.rng.integers(1, VOCAB)
        return (start + np.arange(n) * 3) % (VOCAB - 1) + 1

    def __iter__(self):
        while True:
            ids = np.zeros((MICRO_BATCH, MAX_LEN), dtype=np.int64)
            self.mean_len = float(np.clip(self.mean_len + self.rng.normal(0, 1.2), 2.5, 11.0))
            for row in range(MICRO_BATCH):
                ticket = self._ticket()
                ids[row, :len(ticket)] = ticket
            mask = ids != 0
            yield torch.from_numpy(ids), torch.from_numpy(mask), int(mask[:, 1:].sum())


class TicketLM(nn.Module):
    """Predicts the next token from the current one and the mean of everything before it."""

    def __init__(self, dim=16):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.mix = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, VOCAB)
        self.register_buffer("average", torch.tril(torch.ones(MAX_LEN, MAX_LEN))
                             / torch.arange(1, MAX_LEN + 1).unsqueeze(1))

    def forward(self, ids):
        x = self.tok(ids)
        context = self.average @ x
        return self.head(torch.relu(self.mix(torch.cat([x, context], dim=-1))))


def summed_loss(model, ids, mask):
    logits = model(ids)[:, :-1]
    losses = F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1), reduction="none")
    return (losses * mask[:, 1:].reshape(-1).float()).sum()


def train_update(model, optimizer, stream, device):
    """Accumulates until the token budget is reached, then applies one update."""
    optimizer.zero_grad()
    seen, total = 0, torch.zeros((), device=device)
    while seen < TOKENS_PER_UPDATE:
        ids, mask, n_tokens = next(stream)
        loss = summed_loss(model, ids.to(device), mask.to(device))
        (loss / TOKENS_PER_UPDATE).backward()
        total += loss.detach()
        seen += n_tokens
    optimizer.step()
    xm.mark_step()
    return total, seen


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = TicketLM().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    stream = iter(TicketStream(seed=9))
    for update in range(UPDATES):
        total, seen = train_update(model, optimizer, stream, device)
        if (update + 1) % 8 == 0:
            print(f"update {update + 1}: {seen} tokens, loss {total.item() / seen:.4f}")


if __name__ == "__main__":
    main()
