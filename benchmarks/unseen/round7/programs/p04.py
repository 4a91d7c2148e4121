"""A small non-autoregressive acoustic model: phonemes to mel frames with a duration predictor."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PHONES, MELS, TEXT, BATCH, MAX_FRAMES = 30, 12, 10, 4, 48


class Utterances(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.phones = torch.randint(1, PHONES, (n, TEXT), generator=g)
        self.durations = torch.randint(1, 5, (n, TEXT), generator=g)
        basis = torch.randn(PHONES, MELS, generator=g)
        self.mels = torch.zeros(n, MAX_FRAMES, MELS)
        for i in range(n):
            frames = basis[self.phones[i]].repeat_interleave(self.durations[i], dim=0)
            self.mels[i, :len(frames)] = frames

    def __len__(self):
        return len(self.phones)

    def __getitem__(self, i):
        return self.phones[i], self.durations[i], self.mels[i]


class ConvBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + F.relu(self.conv(x.transpose(1, 2)).transpose(1, 2)))


class AcousticModel(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(PHONES, dim)
        self.encoder = nn.Sequential(ConvBlock(dim), ConvBlock(dim))
        self.duration = nn.Linear(dim, 1)
        self.decoder = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.LayerNorm(dim))
        self.to_mel = nn.Linear(dim, MELS)

    def regulate(self, h, durations):
        flat = h.reshape(-1, h.size(-1))
        return torch.repeat_interleave(flat, durations.reshape(-1), dim=0)

    def forward(self, phones, durations):
        h = self.encoder(self.emb(phones))
        log_dur = self.duration(h).squeeze(-1)
        frames = self.to_mel(self.decoder(self.regulate(h, durations)))
        return frames, log_dur


def valid_frames(mels, durations):
    return torch.cat([m[:n] for m, n in zip(mels, durations.sum(1).tolist())])


class ActivationMonitor:
    """Keeps the mean absolute activation of the monitored layers for the log."""

    def __init__(self, names):
        self.names = names
        self.stats = {}

    def attach(self, model):
        for name, module in model.named_modules():
            if name in self.names:
                module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def record(module, inputs, output):
            self.stats.setdefault(name, []).append(output.detach().abs().mean())
        return record

    def flush(self):
        line = {k: sum(v) / len(v) for k, v in self.stats.items()}
        self.stats = {}
        return line


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        self.monitor = ActivationMonitor({'encoder.0', 'encoder.1', 'decoder'})

    def training_step(self, batch):
        phones, durations, mels = batch
        target = valid_frames(mels, durations).to(self.device)
        phones, durations = phones.to(self.device), durations.to(self.device)
        frames, log_dur = self.model(phones, durations)
        mel_loss = F.l1_loss(frames, target)
        dur_loss = F.mse_loss(log_dur, durations.float().log())
        return mel_loss + 0.1 * dur_loss

    def fit_epoch(self, loader, epoch):
        self.model.train()
        self.monitor.attach(self.model)
        for batch in loader:
            self.optimizer.zero_grad()
            loss = self.training_step(batch)
            loss.backward()
            self.optimizer.step()
            stats = self.monitor.flush()
            xm.mark_step()
        text = ' '.join(f'{k}={v.item():.3f}' for k, v in sorted(stats.items()))
        print(f'epoch {epoch} loss {loss.item():.4f} {text}')


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(Utterances(20, 4), batch_size=BATCH, shuffle=True)
    trainer = Trainer(AcousticModel().to(device), device)
    for epoch in range(6):
        trainer.fit_epoch(loader, epoch)


if __name__ == '__main__':
    main()
