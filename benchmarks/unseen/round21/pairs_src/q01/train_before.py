import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

PAD = 0
VOCAB = 40


class Tagger(nn.Module):
    def __init__(self, n_tags, dim=16):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, n_tags)

    def forward(self, tokens):
        h = self.emb(tokens)
        h = h + F.relu(self.conv(h.transpose(1, 2))).transpose(1, 2)
        return self.out(self.norm(h))


def make_data(n=48, length=10, n_tags=7):
    g = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, VOCAB, (n, length), generator=g)
    tags = tokens % (n_tags - 1) + 1
    lengths = torch.randint(4, length + 1, (n,), generator=g)
    pad = torch.arange(length)[None] >= lengths[:, None]
    tokens[pad] = PAD
    tags[pad] = 0
    return TensorDataset(tokens, tags)


def loss_fn(logits, tags):
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten())


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    n_tags = 7
    model = Tagger(n_tags).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(make_data(n_tags=n_tags), batch_size=8)
    losses = []
    for tokens, tags in loader:
        tokens, tags = tokens.to(device), tags.to(device)
        optim.zero_grad()
        loss = loss_fn(model(tokens), tags)
        loss.backward()
        optim.step()
        torch_xla.sync()
        losses.append(loss.item())
    print("loss", [round(x, 3) for x in losses])


if __name__ == "__main__":
    main()
