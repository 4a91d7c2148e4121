"""Trains the insurance-claim triage classifier (tabular + categorical features)."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset, random_split


class TabularNet(nn.Module):
    """Embeds categoricals, concatenates numerics, residual MLP on top."""

    def __init__(self, cardinalities, n_numeric, width=32, n_blocks=2, p_drop=0.2, n_classes=4):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, 6) for c in cardinalities)
        self.stem = nn.Linear(6 * len(cardinalities) + n_numeric, width)
        self.blocks = nn.ModuleList()
        for _ in range(n_blocks):
            self.blocks.append(
                nn.Sequential(
                    nn.LayerNorm(width),
                    nn.Linear(width, 2 * width),
                    nn.ReLU(),
                    nn.Dropout(p_drop),
                    nn.Linear(2 * width, width),
                )
            )
        self.head = nn.Linear(width, n_classes)

    def forward(self, cats, nums):
        parts = [emb(cats[:, i]) for i, emb in enumerate(self.embeddings)]
        h = self.stem(torch.cat(parts + [nums], dim=1))
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


def make_claims(n=160, seed=21):
    g = torch.Generator().manual_seed(seed)
    cats = torch.stack([torch.randint(0, c, (n,), generator=g) for c in (12, 7, 20)], dim=1)
    nums = torch.randn(n, 5, generator=g)
    y = (cats.sum(dim=1) + (nums[:, 0] > 0).long()) % 4
    return TensorDataset(cats, nums, y)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    seen = 0
    for cats, nums, y in loader:
        pred = model(cats.to(device), nums.to(device)).argmax(dim=1)
        correct += (pred == y.to(device)).sum()
        seen += y.shape[0]
        torch_xla.sync()
    return correct.item() / seen


def train_one_epoch(model, loader, criterion, optimizer, device):
    last = None
    for cats, nums, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(cats.to(device), nums.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        last = loss.detach()
        torch_xla.sync()
    return last.item()


def main():
    torch.manual_seed(42)
    device = torch_xla.device()
    full = make_claims()
    train_set, valid_set = random_split(full, [128, 32])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=32)

    model = TabularNet((12, 7, 20), 5).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    best = 0.0
    model.train()
    for epoch in range(3):
        loss = train_one_epoch(model, train_loader, criterion, optimizer, device)
        acc = evaluate(model, valid_loader, device)
        xm.master_print(f"epoch {epoch}: loss {loss:.4f} accuracy {acc:.3f}")
        if acc > best:
            best = acc
            xm.save(model.state_dict(), "claims_best.pt")


if __name__ == "__main__":
    main()
