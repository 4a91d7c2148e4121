"""Denoising autoencoder for spectra with a periodic look at the activations.

Every PROBE_EVERY updates the share of silent units per layer is measured on a
fixed batch and written to the history, next to the reconstruction error.
"""
import csv
import io
from typing import Dict, List

import torch
import torch.nn as nn
import torch_xla

N_BINS = 40
PROBE_EVERY = 5
STEPS = 50
BATCH = 20


class Encoder(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_BINS, 32), nn.ReLU(),
            nn.Linear(32, 16), nn.ReLU(),
            nn.Linear(16, 6),
        )


class Decoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, N_BINS))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Spectra:
    """Two Lorentz lines on a flat background."""

    def __init__(self, seed: int):
        self.gen = torch.Generator().manual_seed(seed)
        self.grid = torch.linspace(0, 1, N_BINS)

    def __call__(self, n: int):
        clean = torch.zeros(n, N_BINS)
        for _ in range(2):
            mid = torch.rand(n, 1, generator=self.gen)
            width = 0.02 + 0.05 * torch.rand(n, 1, generator=self.gen)
            clean += width ** 2 / ((self.grid - mid) ** 2 + width ** 2)
        noisy = clean + 0.15 * torch.randn(n, N_BINS, generator=self.gen)
        return noisy, clean


class SilenceProbe:
    """Collects the share of zero outputs of each ReLU."""

    def __init__(self, model: nn.Module, batch: torch.Tensor):
        self.model = model
        self.batch = batch
        self.layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.ReLU)}
        self.silent: Dict[str, torch.Tensor] = {}
        self.passes: Dict[str, int] = {}

    def attach(self):
        self.silent = {n: torch.zeros((), device=self.batch.device) for n in self.layers}
        self.passes = dict.fromkeys(self.layers, 0)
        for name, layer in self.layers.items():
            layer.register_forward_hook(self._recorder(name))

    def _recorder(self, name):
        def record(module, inputs, output):
            share = (output.detach() <= 0).float().mean()
            self.silent[name] = self.silent[name] + share
            self.passes[name] += 1
        return record

    @torch.no_grad()
    def measure(self) -> Dict[str, float]:
        self.attach()
        self.model.eval()
        self.model(self.batch)
        self.model.train()
        torch_xla.sync()
        return {n: v.item() / self.passes[n] for n, v in self.silent.items()}


class History:
    def __init__(self):
        self.rows: List[dict] = []

    def write(self, step: int, loss: float, silent: Dict[str, float]):
        self.rows.append({"step": step, "loss": f"{loss:.4f}", **{k: f"{v:.3f}" for k, v in silent.items()}})
        print("  ".join(f"{k} {v}" for k, v in self.rows[-1].items()))

    def as_csv(self) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, fieldnames=self.rows[0])
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def fit():
    torch.manual_seed(12)
    device = torch_xla.device()
    model = Denoiser().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.5)
    data = Spectra(1)
    fixed, _ = Spectra(2)(BATCH)
    probe = SilenceProbe(model, fixed.to(device))
    history = History()
    running = torch.zeros((), device=device)

    for step in range(1, STEPS + 1):
        noisy, clean = (t.to(device) for t in data(BATCH))
        opt.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(noisy), clean, beta=0.1)
        loss.backward()
        opt.step()
        running += loss.detach()
        torch_xla.sync()
        if step % PROBE_EVERY == 0:
            history.write(step, running.item() / PROBE_EVERY, probe.measure())
            running.zero_()
    print(history.as_csv())


if __name__ == "__main__":
    fit()
