import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_PHONE, N_MEL = 64, 20


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel=3):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.norm(x + h)


class ProsodyEncoder(nn.Module):
    """Utterance-level posterior over the prosody latent, from the reference mel."""

    def __init__(self, dim, latent):
        super().__init__()
        self.inp = nn.Linear(N_MEL, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.mu = nn.Linear(dim, latent)
        self.logvar = nn.Linear(dim, latent)

    def forward(self, mel):
        h = F.relu(self.conv(self.inp(mel).transpose(1, 2))).mean(2)
        return self.mu(h), self.logvar(h)


class Acoustic(nn.Module):
    def __init__(self, dim=32, latent=8):
        super().__init__()
        self.phone = nn.Embedding(N_PHONE, dim)
        self.enc = nn.ModuleList(ConvBlock(dim) for _ in range(1))
        self.duration = nn.Linear(dim, 1)
        self.prosody = ProsodyEncoder(dim, latent)
        self.z_proj = nn.Linear(latent, dim)
        self.dec = nn.ModuleList(ConvBlock(dim) for _ in range(1))
        self.mel = nn.Linear(dim, N_MEL)

    def forward(self, phones, align, mel, noise):
        x = self.phone(phones)
        for block in self.enc:
            x = block(x)
        log_dur = self.duration(x).squeeze(-1)
        mu, logvar = self.prosody(mel)
        z = mu + noise * torch.exp(0.5 * logvar)
        y = torch.bmm(align, x) + self.z_proj(z)[:, None, :]
        for block in self.dec:
            y = block(y)
        return self.mel(y), log_dur, mu, logvar


class KLAnneal:
    def __init__(self, warmup):
        self.warmup, self.n = warmup, 0

    def step(self):
        self.n += 1

    @property
    def weight(self):
        return min(1.0, (self.n + 1) / self.warmup)


def criterion(out, mel, durations, frame_mask, kl_weight):
    pred, log_dur, mu, logvar = out
    l1 = ((pred - mel).abs().mean(-1) * frame_mask).sum() / frame_mask.sum()
    dur = F.mse_loss(log_dur, torch.log1p(durations))
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return l1 + 0.1 * dur + kl_weight * kl


def batches(n, b=3, p=12, t=48):
    g = torch.Generator().manual_seed(5)
    for _ in range(n):
        phones = torch.randint(0, N_PHONE, (b, p), generator=g)
        dur = torch.full((b, p), t // p)
        align = torch.repeat_interleave(torch.eye(p), t // p, dim=0).expand(b, t, p).contiguous()
        mel = torch.randn(b, t, N_MEL, generator=g)
        mask = (torch.arange(t) < torch.randint(t // 2, t + 1, (b, 1), generator=g)).float()
        noise = torch.randn(b, 8, generator=g)
        yield phones, dur.float(), align, mel, mask, noise


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    model = Acoustic().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
    anneal = KLAnneal(warmup=5)
    for batch in batches(8):
        phones, dur, align, mel, mask, noise = (x.to(device) for x in batch)
        opt.zero_grad()
        out = model(phones, align, mel, noise)
        loss = criterion(out, mel, dur, mask, anneal.weight)
        loss.backward()
        opt.step()
        torch_xla.sync()
        anneal.step()


if __name__ == "__main__":
    main()
