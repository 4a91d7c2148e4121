"""Variational autoencoder over two-bar piano rolls."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

PITCHES = 24
TICKS = 16
LATENT = 8


class RollEncoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.c1 = nn.Conv1d(PITCHES, width, 3, padding=1)
        self.c2 = nn.Conv1d(width, 2 * width, 4, stride=4)
        self.n1 = nn.GroupNorm(4, width)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * width * (TICKS // 4), 2 * LATENT)

    def forward(self, x):
        h = F.silu(self.n1(self.c1(x)))
        h = self.drop(F.silu(self.c2(h)))
        return self.out(h.flatten(1)).chunk(2, dim=-1)


class RollDecoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.inp = nn.Linear(LATENT, width * TICKS)
        self.c1 = nn.Conv1d(width, width, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Conv1d(width, PITCHES, 3, padding=1)

    def forward(self, z):
        h = self.inp(z).view(z.size(0), self.width, TICKS)
        h = h + self.drop(F.silu(self.c1(h)))
        return self.out(h)


class PianoVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = RollEncoder()
        self.decoder = RollDecoder()

    def forward(self, x):
        mu, logvar = self.encoder(x)
        logvar = logvar.clamp(-8.0, 8.0)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar

    @torch.no_grad()
    def sample(self, n, device):
        self.eval()
        z = torch.randn(n, LATENT, device=device)
        return torch.sigmoid(self.decoder(z)) > 0.5


def kl_weight(step, hold=4, ramp=10, top=0.4):
    return top * min(1.0, max(0.0, (step - hold) / ramp))


def train_step(model, opt, x, step):
    opt.zero_grad()
    logits, mu, logvar = model(x)
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2)).mean()
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar).sum(-1).mean()
    loss = rec + kl_weight(step) * kl
    loss.backward()
    opt.step()
    return loss


def main():
    torch.manual_seed(2)
    device = xm.xla_device()
    model = PianoVAE().to(device).train()
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3)
    rolls = (torch.rand(64, PITCHES, TICKS) < 0.08).float()
    torch_xla.sync()
    for step in range(8):
        x = rolls[(step % 4) * 16:(step % 4 + 1) * 16].to(device)
        loss = train_step(model, opt, x, step)
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), round(loss.item(), 3))
        if step == 4:
            preview = model.sample(2, device)
            torch_xla.sync()
            print("notes in preview:", int(preview.cpu().sum()))


if __name__ == "__main__":
    main()
