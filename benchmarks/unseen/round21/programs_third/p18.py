"""Fine-tune a small tabular classifier with Accelerate: accumulation, clipping, periodic evaluation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchmetrics
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 10
CLASSES = 4
BATCH_SIZE = 8
ACCUMULATE = 4
EPOCHS = 2


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, FEATURES, generator=g)
    w = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(99))
    noise = 0.3 * torch.randn(n, CLASSES, generator=g)
    return TensorDataset(x, (x @ w + noise).argmax(dim=1))


class TabularNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.norm = nn.LayerNorm(FEATURES)
        self.body = nn.Sequential(nn.Linear(FEATURES, hidden), nn.GELU(), nn.Linear(hidden, CLASSES))

    def forward(self, x):
        return self.body(self.norm(x))


@torch.no_grad()
def evaluate(model, loader, accuracy):
    model.eval()
    accuracy.reset()
    for x, y in loader:
        accuracy.update(model(x), y)
    model.train()
    return accuracy.compute().item()


def main():
    set_seed(3)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATE)
    train_loader = DataLoader(make_split(160, 1), BATCH_SIZE, shuffle=True, drop_last=True)
    eval_loader = DataLoader(make_split(48, 2), BATCH_SIZE)
    model = TabularNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    model, optimizer, train_loader, eval_loader = accelerator.prepare(
        model, optimizer, train_loader, eval_loader
    )
    accuracy = torchmetrics.classification.MulticlassAccuracy(CLASSES, validate_args=False)
    accuracy = accuracy.to(accelerator.device)

    seen = 0
    for epoch in range(EPOCHS):
        for x, y in train_loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            seen += 1
            if seen % 10 == 0:
                value = evaluate(model, eval_loader, accuracy)
                accelerator.print(f"batch {seen:3d}  loss {loss.item():.4f}  accuracy {value:.3f}")


if __name__ == "__main__":
    main()
