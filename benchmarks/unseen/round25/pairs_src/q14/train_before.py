import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader

N_MELS, FRAMES, CLASSES = 16, 20, 5

hparams = dict(
    lr=1e-3,
    betas=(0.9, 0.98),
    weight_decay=1e-2,
    batch_size=6,
    epochs=2,
    channels=(8, 16),
    log_every=2,
)


def synth(n, seed=0):
    """Log-mel-ish patches, one frequency band per class."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    x = 0.3 * torch.randn(n, 1, N_MELS, FRAMES, generator=g)
    for i, c in enumerate(y.tolist()):
        x[i, 0, 3 * c : 3 * c + 2] += 1.0
    return TensorDataset(x, y)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv_a = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn_a = nn.BatchNorm2d(cout)
        self.conv_b = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn_b = nn.BatchNorm2d(cout)

    def forward(self, x):
        x = F.relu(self.bn_a(self.conv_a(x)))
        x = F.relu(self.bn_b(self.conv_b(x)))
        return F.max_pool2d(x, kernel_size=2)


class AudioTagger(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn0 = nn.BatchNorm2d(1)
        dims = (1,) + tuple(channels)
        self.blocks = nn.Sequential(*[ConvBlock(a, b) for a, b in zip(dims, dims[1:])])
        self.fc = nn.Linear(dims[-1], CLASSES)

    def forward(self, x):
        x = self.blocks(self.bn0(x))
        x = x.mean(2)
        x = x.amax(2) + x.mean(2)
        return self.fc(x)


def make_optimizer(model):
    return torch.optim.Adam(
        model.parameters(),
        lr=hparams["lr"],
        betas=hparams["betas"],
        weight_decay=hparams["weight_decay"],
    )


def train():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = AudioTagger(hparams["channels"]).to(device)
    model.train()
    opt = make_optimizer(model)
    host = DataLoader(synth(18), batch_size=hparams["batch_size"], shuffle=False, drop_last=True)
    loader = MpDeviceLoader(host, device)

    step, t0 = 0, time.time()
    for epoch in range(hparams["epochs"]):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(opt)
            if step % hparams["log_every"] == 0:
                xm.add_step_closure(lambda s, l: print(f"step {s} loss {l.item():.4f}"), args=(step, loss.detach()))
            step += 1
    xm.mark_step()
    print(f"done in {time.time() - t0:.1f}s")


if __name__ == "__main__":
    train()
