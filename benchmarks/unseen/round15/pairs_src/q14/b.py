"""Crop type mapping from satellite time series (per-pixel temporal mixer)."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

CROPS = ("wheat", "maize", "rape", "beet", "meadow")
DATES, BANDS = 18, 6

OPTIONS = {
    "width": 24,
    "depth": 2,
    "batch": 32,
    "lr": 2e-3,
    "smooth": 0.1,
}


def ndvi_like(n, seed=13):
    g = torch.Generator().manual_seed(seed)
    crop = torch.randint(0, len(CROPS), (n,), generator=g)
    day = torch.linspace(0, 1, DATES)
    peak = torch.tensor([0.35, 0.65, 0.3, 0.7, 0.5])[crop] + 0.03 * torch.randn(n, generator=g)
    width = torch.tensor([0.1, 0.12, 0.08, 0.2, 0.4])[crop]
    curve = torch.exp(-((day - peak[:, None]) / width[:, None]) ** 2)
    mix = torch.rand(BANDS, generator=g) * 2 - 1
    x = curve[..., None] * mix + 0.2 * torch.randn(n, DATES, BANDS, generator=g)
    return TensorDataset(x, crop)


class MixerUnit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(DATES, 2 * DATES), nn.GELU(), nn.Linear(2 * DATES, DATES))
        self.chan = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm_t = nn.LayerNorm(width)
        self.norm_c = nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.time(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        x = self.norm_c(x + self.chan(x))
        return x


class CropMixer(nn.Module):
    def __init__(self, opts):
        super().__init__()
        self.embed = nn.Linear(BANDS, opts["width"])
        self.units = nn.ModuleList([MixerUnit(opts["width"]) for _ in range(opts["depth"])])
        self.head = nn.Linear(opts["width"], len(CROPS))

    def forward(self, x):
        x = self.embed(x)
        for unit in self.units:
            x = unit(x)
        return self.head(x.mean(1))


def main(opts):
    torch.manual_seed(13)
    device = torch_xla.device()
    loader = MpDeviceLoader(
        DataLoader(ndvi_like(opts["batch"] * 12), batch_size=opts["batch"], shuffle=True), device)
    model = CropMixer(opts).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=opts["smooth"])
    optimizer = torch.optim.RMSprop(model.parameters(), lr=opts["lr"], momentum=0.9)
    for epoch in range(3):
        total = 0.0
        for x, crop in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), crop)
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        print(f"epoch {epoch} mean loss {total.item() / len(loader):.4f} "
              f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main(OPTIONS)
