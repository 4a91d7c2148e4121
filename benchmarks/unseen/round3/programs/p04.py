import csv
import io
import random

import torch
import torch.nn as nn
import torch_xla


def sales_table(rows=60, seed=6):
    """A small export of a shop: area, rooms, rating, price."""
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    for _ in range(rows):
        area, rooms = rng.randint(3, 12), rng.randint(1, 5)
        rating = rng.choice(["1", "2", "3", "4", "5", "3", "4"]) if rng.random() < 0.85 else "4.5"
        writer.writerow([area, rooms, rating, 2 * area + rooms])
    return out.getvalue()


def number(text):
    return float(text) if "." in text else int(text)


def read(table, size):
    rows = [[number(c) for c in r] for r in csv.reader(io.StringIO(table))]
    for i in range(0, len(rows), size):
        block = rows[i:i + size]
        yield torch.tensor([r[:3] for r in block]), torch.tensor([r[3] for r in block])


class PriceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(self.norm(x.float())).squeeze(1)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = PriceModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, price) in enumerate(read(sales_table(), 5)):
        pred = model(x.to(device))
        loss = nn.functional.l1_loss(pred, price.to(device).float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, loss.item())


main()
