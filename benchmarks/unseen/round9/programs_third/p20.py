"""Load forecasting with a small patch transformer, trained through accelerate."""
import math

import torch
import torch.nn as nn
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

config = {
    "context": 48, "horizon": 12, "patch": 8, "dim": 32, "layers": 2, "heads": 4,
    "train_windows": 192, "val_windows": 96, "batch": 8, "eval_batch": 32,
    "accumulate": 3, "epochs": 3, "lr": 3e-3, "warmup": 4, "clip": 1.0, "seed": 9,
}


class Windows(Dataset):
    def __init__(self, count, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        n = count + cfg["context"] + cfg["horizon"]
        t = torch.arange(n, dtype=torch.float32)
        self.series = torch.sin(2 * math.pi * t / 24) + 0.5 * torch.sin(2 * math.pi * t / 168) + 0.1 * torch.randn(n, generator=g)
        self.count, self.cfg = count, cfg

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        c, h = self.cfg["context"], self.cfg["horizon"]
        return {"past": self.series[i:i + c], "future": self.series[i + c:i + c + h]}


class PatchForecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.patch = cfg["patch"]
        n = cfg["context"] // self.patch
        self.embed = nn.Linear(self.patch, cfg["dim"])
        self.pos = nn.Parameter(0.02 * torch.randn(n, cfg["dim"]))
        layer = nn.TransformerEncoderLayer(cfg["dim"], cfg["heads"], 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg["layers"], enable_nested_tensor=False)
        self.head = nn.Linear(n * cfg["dim"], cfg["horizon"])

    def forward(self, past):
        mean, std = past.mean(1, keepdim=True), past.std(1, keepdim=True) + 1e-5
        x = ((past - mean) / std).unflatten(1, (-1, self.patch))
        y = self.head(self.encoder(self.embed(x) + self.pos).flatten(1))
        return y * std + mean


def warmup_cosine(cfg, total):
    def fn(step):
        if step < cfg["warmup"]:
            return (step + 1) / cfg["warmup"]
        return 0.5 * (1 + math.cos(math.pi * (step - cfg["warmup"]) / max(1, total - cfg["warmup"])))
    return fn


def evaluate(accelerator, model, loader):
    model.eval()
    errors = []
    for batch in loader:
        with torch.no_grad():
            pred = model(batch["past"])
        mae, ref = accelerator.gather_for_metrics(((pred - batch["future"]).abs().mean(1), batch["future"].abs().mean(1)))
        torch_xla.sync()
        errors.append((mae.cpu(), ref.cpu()))
    mae, ref = (torch.cat(x) for x in zip(*errors))
    return (mae.sum() / ref.sum()).item()


def main(cfg):
    accelerator = Accelerator(gradient_accumulation_steps=cfg["accumulate"])
    set_seed(cfg["seed"])
    train = DataLoader(Windows(cfg["train_windows"], cfg, 0), cfg["batch"], shuffle=True, drop_last=True)
    val = DataLoader(Windows(cfg["val_windows"], cfg, 1), cfg["eval_batch"])
    model = PatchForecaster(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    total = cfg["epochs"] * len(train) // cfg["accumulate"]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(cfg, total))
    model, optimizer, train, val, scheduler = accelerator.prepare(model, optimizer, train, val, scheduler)
    criterion = nn.SmoothL1Loss()

    for epoch in range(cfg["epochs"]):
        model.train()
        for i, batch in enumerate(train):
            with accelerator.accumulate(model):
                loss = criterion(model(batch["past"]), batch["future"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), cfg["clip"])
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            torch_xla.sync()
        print(f"epoch {epoch}: loss {loss.item():.4f}  val wape {evaluate(accelerator, model, val):.4f}")


if __name__ == "__main__":
    main(config)
