"""Fine-tune a small sentence classifier, unfreezing from the top as in ULMFiT."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STAGES = [
    # (epochs, number of layer groups that train, top learning rate)
    (1, 1, 5e-2),
    (1, 2, 5e-2),
    (1, 3, 3e-2),
    (2, 4, 2e-2),
]
LR_DECAY = 2.6


class Encoder(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, pad):
        h = self.n1(x)
        x = x + self.attn(h, h, h, key_padding_mask=pad, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class Classifier(nn.Module):
    def __init__(self, vocab=200, dim=32, length=20, classes=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        self.enc1, self.enc2 = Encoder(dim, 4), Encoder(dim, 4)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, classes))

    def layer_groups(self):
        return [
            list(self.head.parameters()),
            list(self.enc2.parameters()),
            list(self.enc1.parameters()),
            [self.pos, *self.tok.parameters()],
        ]

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos
        x = self.enc2(self.enc1(x, pad), pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.head((x * keep).sum(1) / keep.sum(1))


def sentences(n, length=20, vocab=200, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    topic = 10 + 45 * y[:, None] + torch.randint(0, 45, (n, length), generator=g)
    common = torch.randint(1, vocab, (n, length), generator=g)
    ids = torch.where(torch.rand(n, length, generator=g) < 0.4, topic, common)
    lens = torch.randint(6, length + 1, (n,), generator=g)
    ids[torch.arange(length)[None] >= lens[:, None]] = 0
    return torch.utils.data.TensorDataset(ids, y)


def set_stage(model, n_groups, top_lr):
    groups = []
    for depth, params in enumerate(model.layer_groups()):
        active = depth < n_groups
        for p in params:
            p.requires_grad_(active)
            p.grad = None
        if active:
            groups.append({"params": params, "lr": top_lr / LR_DECAY ** depth})
    return torch.optim.SGD(groups, lr=top_lr, momentum=0.9, weight_decay=1e-4)


def run_epoch(model, loader, optimizer, device):
    losses = []
    for ids, y in loader:
        ids, y = ids.to(device), y.to(device)
        loss = F.cross_entropy(model(ids), y, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        torch_xla.sync()
    return sum(l.item() for l in losses) / len(losses)


@torch.no_grad()
def accuracy(model, loader, device):
    good = 0
    for ids, y in loader:
        good += int((model(ids.to(device)).argmax(-1).cpu() == y).sum())
    return good / len(loader.dataset)


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    train = torch.utils.data.DataLoader(sentences(160, seed=1), batch_size=16, shuffle=True, drop_last=True)
    test = torch.utils.data.DataLoader(sentences(64, seed=2), batch_size=32)
    model = Classifier().to(device)
    torch_xla.sync()
    for stage, (epochs, n_groups, lr) in enumerate(STAGES):
        optimizer = set_stage(model, n_groups, lr)
        for epoch in range(epochs):
            loss = run_epoch(model, train, optimizer, device)
        print(f"stage {stage}: {n_groups} groups, loss {loss:.3f}, test acc {accuracy(model, test, device):.2f}")


if __name__ == "__main__":
    main()
