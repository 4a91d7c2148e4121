"""AdaLoRA adaptation of a frozen log encoder to a new data centre.

The encoder was made for another site; adapters with an adaptive rank are put on
its attention and feed-forward projections and learn to tell incident classes
apart from windows of event ids.
"""
import os

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from peft import AdaLoraConfig, get_peft_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
import yaml

CONFIG = yaml.safe_load("""
data:   {windows: 640, length: 12, events: 50, incidents: 4, batch: 32, seed: 9}
model:  {width: 32, heads: 2, layers: 2, ff: 64}
adapter:
  init_r: 10
  target_r: 3
  lora_alpha: 16
  orth_reg_weight: 0.1
  tinit: 6
  tfinal: 20
train:  {epochs: 3, lr: 0.004, weight_decay: 0.01}
""")


def synthetic_windows(c):
    rng = np.random.default_rng(c["seed"])
    y = rng.integers(0, c["incidents"], c["windows"])
    profile = rng.dirichlet(np.full(c["events"], 0.4), c["incidents"])
    x = np.stack([rng.choice(c["events"], c["length"], p=profile[k]) for k in y])
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Block(nn.Module):
    def __init__(self, width, heads, ff):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.up = nn.Linear(width, ff)
        self.down = nn.Linear(ff, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, t):
        b, n, w = t.shape
        return t.view(b, n, self.heads, w // self.heads).transpose(1, 2)

    def forward(self, h):
        z = self.norm1(h)
        q, k, v = self.split(self.query(z)), self.split(self.key(z)), self.split(self.value(z))
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        h = h + a.transpose(1, 2).flatten(2)
        return h + self.down(torch.relu(self.up(self.norm2(h))))


class LogEncoder(nn.Module):
    def __init__(self, m, events, incidents):
        super().__init__()
        self.event = nn.Embedding(events, m["width"])
        self.blocks = nn.ModuleList(Block(m["width"], m["heads"], m["ff"]) for _ in range(m["layers"]))
        self.classifier = nn.Linear(m["width"], incidents)

    def forward(self, x):
        h = self.event(x)
        for block in self.blocks:
            h = block(h)
        return self.classifier(h.mean(1))


def adapt(model, total_step):
    config = AdaLoraConfig(
        target_modules=["query", "value", "up"],
        modules_to_save=["classifier"],
        total_step=total_step,
        **CONFIG["adapter"],
    )
    return get_peft_model(model, config)


def orthogonality(model):
    terms = []
    for name, p in model.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            cov = p @ p.t() if "lora_A" in name else p.t() @ p
            terms.append((cov - torch.eye(cov.shape[0], device=p.device)).square().sum().sqrt())
    return torch.stack(terms).mean()


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits, count = None, 0
    for x, y in loader:
        good = (model(x).argmax(1) == y).sum()
        hits = good if hits is None else hits + good
        count += len(y)
    torch_xla.sync()
    model.train()
    return hits.item() / count


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    d, t = CONFIG["data"], CONFIG["train"]
    full = synthetic_windows(d)
    train, test = random_split(full, [len(full) - 128, 128], torch.Generator().manual_seed(1))
    options = dict(batch_size=d["batch"], drop_last=True)
    train_loader = pl.MpDeviceLoader(DataLoader(train, shuffle=True, **options), device)
    test_loader = pl.MpDeviceLoader(DataLoader(test, **options), device)

    model = adapt(LogEncoder(CONFIG["model"], d["events"], d["incidents"]), t["epochs"] * len(train_loader))
    model.to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    print(f"{os.path.basename(__file__)}: {sum(p.numel() for p in trainable)} trainable parameters")
    opt = torch.optim.AdamW(trainable, lr=t["lr"], weight_decay=t["weight_decay"])
    weight = CONFIG["adapter"]["orth_reg_weight"]

    step = 0
    for epoch in range(t["epochs"]):
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x), y) + weight * orthogonality(model)
            loss.backward()
            opt.step()
            model.base_model.update_and_allocate(step)
            opt.zero_grad()
            step += 1
        torch_xla.sync()
        print(f"epoch {epoch}: loss {loss.item():.3f}  test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
