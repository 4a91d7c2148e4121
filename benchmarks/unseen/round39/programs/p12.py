"""Unrolled iterative hard thresholding (LISTA style) for compressed sensing.

Recovers non-negative sparse codes from random projections.  The threshold follows a
continuation schedule: strong pruning first, then relaxed towards its final
value, as is usual for sparse recovery.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_CODE = 48
N_MEAS = 20
N_LAYERS = 4
BATCH = 32
STEPS = 24
LOG_EVERY = 6


class ContinuationSchedule:
    def __init__(self, start, end, steps):
        self.start = start
        self.end = end
        self.steps = steps

    def __call__(self, step):
        frac = min(step / self.steps, 1.0)
        return self.end + 0.5 * (self.start - self.end) * (1 + math.cos(math.pi * frac))


class UnrolledLayer(nn.Module):
    def __init__(self, n_meas, n_code):
        super().__init__()
        self.analysis = nn.Linear(n_meas, n_code, bias=False)
        self.synthesis = nn.Linear(n_code, n_meas, bias=False)
        self.log_step = nn.Parameter(torch.tensor(-1.0))

    def forward(self, code, meas, lam):
        residual = meas - self.synthesis(code)
        code = code + self.log_step.exp() * self.analysis(residual)
        return F.threshold(code, lam, 0.0)


class Lista(nn.Module):
    def __init__(self, dictionary, n_layers):
        super().__init__()
        n_meas, n_code = dictionary.shape
        self.layers = nn.ModuleList(
            UnrolledLayer(n_meas, n_code) for _ in range(n_layers))
        with torch.no_grad():
            for layer in self.layers:
                layer.analysis.weight.copy_(dictionary.t())
                layer.synthesis.weight.copy_(dictionary)

    def forward(self, meas, lam):
        code = meas.new_zeros(meas.shape[0], self.layers[0].analysis.out_features)
        outputs = []
        for layer in self.layers:
            code = layer(code, meas, lam)
            outputs.append(code)
        return outputs


def sample_codes(generator, batch, n_code, density=0.1):
    support = torch.rand(batch, n_code, generator=generator) < density
    values = 0.5 + torch.rand(batch, n_code, generator=generator)
    return values * support


def deep_supervision(outputs, target):
    loss = 0.0
    for depth, out in enumerate(outputs, start=1):
        weight = 2.0 * depth / (len(outputs) * (len(outputs) + 1))
        loss = loss + weight * F.mse_loss(out, target)
    return loss


def nmse_db(pred, target):
    err = (pred - target).square().sum()
    return 10 * torch.log10(err / target.square().sum().clamp(min=1e-8))


def main():
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(17)
    device = xm.xla_device()

    dictionary = torch.randn(N_MEAS, N_CODE, generator=generator)
    dictionary = F.normalize(dictionary, dim=0)

    model = Lista(dictionary, N_LAYERS).to(device)
    sensing = dictionary.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = ContinuationSchedule(start=0.25, end=0.05, steps=STEPS)
    torch_xla.sync()

    model.train()
    for step in range(STEPS):
        target = sample_codes(generator, BATCH, N_CODE).to(device)
        noise = 0.01 * torch.randn(BATCH, N_MEAS, generator=generator)
        meas = target @ sensing.t() + noise.to(device)

        lam = schedule(step)
        outputs = model(meas, lam)
        loss = deep_supervision(outputs, target)

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        xm.mark_step()

        if (step + 1) % LOG_EVERY == 0:
            print(f"step {step + 1:3d} lambda {lam:.4f} loss {loss.item():.5f}")

    model.eval()
    target = sample_codes(generator, BATCH, N_CODE).to(device)
    with torch.no_grad():
        quality = nmse_db(model(target @ sensing.t(), schedule.end)[-1], target)
    xm.mark_step()
    print(f"final NMSE {quality.item():.2f} dB")


if __name__ == "__main__":
    main()
