import time
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class History:
    """Keeps the outputs of the current epoch for the end-of-epoch report."""

    def __init__(self):
        self.logits, self.labels = [], []

    def add(self, logits, labels):
        self.logits.append(logits.detach())
        self.labels.append(labels)

    def report(self):
        logits, labels = torch.cat(self.logits), torch.cat(self.labels)
        pred = logits.argmax(1)
        recall = [((pred == c) & (labels == c)).sum() / (labels == c).sum().clamp(min=1) for c in range(3)]
        return torch.stack(recall).mean()


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    model = nn.Sequential(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        history, began = History(), time.time()
        for _ in range(4):
            x = torch.randn(8, 2, 10).to(device)
            y = torch.randint(0, 3, (8,)).to(device)
            logits = model(x)
            loss = criterion(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.add(logits, y)
            xm.mark_step()
        recall = history.report()
        xm.mark_step()
        print(f"epoch {epoch} recall {recall.item():.3f} loss {loss.item():.3f} {time.time() - began:.1f}s")


main()
