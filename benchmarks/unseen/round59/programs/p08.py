import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Small harmonic-plus-noise vocoder: reconstruction first, then a hinge GAN with a
# lazily applied gradient penalty on the discriminator.
HOP, FRAMES, BANDS = 16, 16, 16
SAMPLES = HOP * FRAMES
BATCH = 8
STEPS, ADV_START = 60, 12
R1_EVERY, VALID_EVERY = 6, 15


class Voices:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        n = 2 * HOP
        t = np.arange(n)
        basis = np.cos(np.pi / n * (t[None] + 0.5) * (np.arange(BANDS)[:, None] + 0.5))
        self.basis = (basis * np.hanning(n)[None]).astype(np.float32)

    def batch(self, n):
        t = np.arange(SAMPLES)[None] / 4000.0
        f0 = self.rng.uniform(100, 300, size=(n, 1)) * (1 + 0.05 * np.sin(2 * np.pi * 6 * t))
        phase = 2 * np.pi * np.cumsum(f0, 1) / 4000.0
        wav = sum(self.rng.uniform(0.1, 0.5, size=(n, 1)) * np.sin(k * phase) for k in (1, 2, 3))
        wav = (wav + 0.02 * self.rng.normal(size=wav.shape)).astype(np.float32)
        padded = np.pad(wav, ((0, 0), (HOP // 2, HOP // 2)))
        win = np.stack([padded[:, i * HOP:i * HOP + 2 * HOP] for i in range(FRAMES - 1)], 1)
        win = np.concatenate([win, win[:, -1:]], 1)
        mel = np.log(np.abs(win @ self.basis.T) + 1e-2).transpose(0, 2, 1)
        return torch.from_numpy(wav), torch.from_numpy(np.ascontiguousarray(mel, dtype=np.float32))


class Generator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.pre = nn.Conv1d(BANDS, ch, 3, padding=1)
        self.mid = nn.Conv1d(ch, ch, 3, padding=1)
        self.out = nn.Conv1d(ch, HOP, 3, padding=1)

    def forward(self, mel):
        x = F.leaky_relu(self.pre(mel), 0.1)
        x = x + F.leaky_relu(self.mid(x), 0.1)
        return torch.tanh(self.out(x)).transpose(1, 2).flatten(1)


class Discriminator(nn.Module):
    def __init__(self, periods=(4, 8)):
        super().__init__()
        self.periods = periods
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(p * 4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1)) for p in periods)

    def forward(self, wav):
        outs = []
        for p, net in zip(self.periods, self.nets):
            outs.append(net(wav.view(wav.size(0), -1, 4 * p)).flatten(1))
        return torch.cat(outs, 1)


def spectral_loss(fake, real, basis):
    def spec(w):
        return torch.log(F.conv1d(w[:, None], basis[:, None], stride=HOP).abs() + 1e-2)
    return F.l1_loss(spec(fake), spec(real)) + F.l1_loss(fake, real)


class Trainer:
    def __init__(self, device, basis):
        self.gen, self.disc = Generator().to(device), Discriminator().to(device)
        self.opt_g = torch.optim.AdamW(self.gen.parameters(), lr=2e-3, betas=(0.8, 0.99))
        self.opt_d = torch.optim.AdamW(self.disc.parameters(), lr=1e-3, betas=(0.8, 0.99))
        self.basis = basis.to(device)

    def d_step(self, real, fake, with_r1):
        loss = F.relu(1 - self.disc(real)).mean() + F.relu(1 + self.disc(fake.detach())).mean()
        if with_r1:
            inp = real.detach().requires_grad_(True)
            grad, = torch.autograd.grad(self.disc(inp).sum(), inp, create_graph=True)
            loss = loss + 0.5 * R1_EVERY * grad.pow(2).sum(1).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self, real, fake, adversarial):
        loss = spectral_loss(fake, real, self.basis)
        if adversarial:
            loss = loss - 0.1 * self.disc(fake).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self, batches):
        self.gen.eval()
        losses = []
        for wav, mel in batches:
            losses.append(spectral_loss(self.gen(mel), wav, self.basis))
            xm.mark_step()
        self.gen.train()
        return sum(l.item() for l in losses) / len(losses)


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    voices = Voices(seed=3)
    valid = [tuple(t.to(device) for t in voices.batch(BATCH)) for _ in range(3)]
    trainer = Trainer(device, torch.from_numpy(voices.basis))
    sched = torch.optim.lr_scheduler.ExponentialLR(trainer.opt_g, gamma=0.99)
    xm.mark_step()

    d_loss = torch.zeros(())
    for step in range(STEPS):
        wav, mel = (t.to(device) for t in voices.batch(BATCH))
        adversarial = step >= ADV_START
        fake = trainer.gen(mel)
        if adversarial:
            d_loss = trainer.d_step(wav, fake, with_r1=step % R1_EVERY == 0)
        g_loss = trainer.g_step(wav, fake, adversarial)
        sched.step()
        xm.mark_step()
        if (step + 1) % VALID_EVERY == 0:
            val = trainer.validate(valid)
            print(f"step {step + 1} g {g_loss.item():.3f} d {d_loss.item():.3f} valid {val:.3f}")


if __name__ == "__main__":
    main()
