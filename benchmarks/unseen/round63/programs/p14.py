"""One frozen backbone, three LoRA adapters: irrigation advice for three growers.

Every grower has its own soil and its own sensor calibration. The backbone is shared
and frozen, each adapter is trained on the batches of its grower in turn, and now and
then all three are scored.
"""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from peft import LoraConfig, get_peft_model

SEED = 9
FEATURES = 12
WINDOW = 6
BATCH = 16
ROUNDS = 16
GROWERS = ("orchard", "vineyard", "greenhouse")


class MoistureNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encode = nn.Linear(FEATURES * WINDOW, width)
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        h = F.silu(self.encode(x.flatten(1)))
        h = self.norm(h + F.silu(self.mix(h)))
        return self.head(h)


class Grower:
    """Streams (window of sensor readings, mean and spread of tomorrow's moisture)."""

    def __init__(self, index):
        self.gen = torch.Generator().manual_seed(SEED * 100 + index)
        self.coef = torch.randn(FEATURES, generator=self.gen) / FEATURES**0.5
        self.lag = torch.softmax(torch.linspace(-2.0, float(index), WINDOW), 0)

    def batch(self):
        x = torch.randn(BATCH, WINDOW, FEATURES, generator=self.gen)
        signal = torch.einsum("bwf,f,w->b", x, self.coef, self.lag)
        y = torch.tanh(signal) + 0.05 * torch.randn(BATCH, generator=self.gen)
        return x, y


def gaussian_nll(out, y):
    mean, log_var = out.unbind(-1)
    log_var = log_var.clamp(-6.0, 4.0)
    return 0.5 * (log_var + (y - mean) ** 2 * torch.exp(-log_var)).mean()


def adapter_parameters(model, name):
    return [p for n, p in model.named_parameters() if f".{name}." in n]


def attach_adapters(base):
    ranks = {"orchard": 2, "vineyard": 4, "greenhouse": 4}
    model = None
    for name in GROWERS:
        config = LoraConfig(
            r=ranks[name],
            lora_alpha=8,
            lora_dropout=0.0,
            target_modules=["encode", "mix", "head"],
        )
        if model is None:
            model = get_peft_model(base, config, adapter_name=name)
        else:
            model.add_adapter(name, config)
    return model


@torch.no_grad()
def score(model, holdout, device):
    model.eval()
    report = {}
    for name in GROWERS:
        model.set_adapter(name)
        x, y = holdout[name]
        mse = F.mse_loss(model(x.to(device))[:, 0], y.to(device))
        torch_xla.sync()
        report[name] = mse.item()
    model.train()
    return report


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()

    model = attach_adapters(MoistureNet()).to(device)
    growers = {name: Grower(i) for i, name in enumerate(GROWERS)}
    holdout = {name: g.batch() for name, g in growers.items()}
    optimizers = {
        name: torch.optim.SGD(adapter_parameters(model, name), lr=0.03)
        for name in GROWERS
    }
    torch_xla.sync()

    model.train()
    for rnd in range(ROUNDS):
        losses = []
        for name in GROWERS:
            model.set_adapter(name)
            x, y = growers[name].batch()
            x, y = x.to(device), y.to(device)
            loss = gaussian_nll(model(x), y)
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
            losses.append(loss.detach())
            torch_xla.sync()

        if rnd % 4 == 3:
            nll = sum(v.item() for v in losses) / len(losses)
            line = "  ".join(f"{k} {v:.3f}" for k, v in score(model, holdout, device).items())
            print(f"round {rnd + 1:2d}  nll {nll:.3f}  |  {line}")


if __name__ == "__main__":
    main()
