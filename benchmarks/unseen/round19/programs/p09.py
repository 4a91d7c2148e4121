"""Piano-roll transcription from log-spectrogram excerpts, with gradient accumulation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

PITCHES, BINS, FRAMES = 36, 72, 32
ACCUMULATE = 4


class Excerpts(Dataset):
    """Random polyphony rendered as bins x frames, plus the matching onset and frame rolls."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.items = [self.render(rng) for _ in range(count)]

    @staticmethod
    def render(rng):
        roll = np.zeros((FRAMES, PITCHES), np.float32)
        onset = np.zeros_like(roll)
        for _ in range(rng.integers(4, 12)):
            p, s, d = rng.integers(PITCHES), rng.integers(FRAMES - 4), rng.integers(3, 10)
            roll[s : s + d, p] = 1
            onset[s, p] = 1
        spec = np.zeros((FRAMES, BINS), np.float32)
        for shift, gain in ((0, 1.0), (12, 0.6), (19, 0.4), (24, 0.3)):
            spec[:, shift : shift + PITCHES] += gain * roll
            spec[:, shift : shift + PITCHES] += 0.5 * gain * onset
        spec += 0.1 * np.abs(rng.normal(size=spec.shape))
        return np.log1p(spec).astype(np.float32), roll, onset

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return tuple(torch.from_numpy(a) for a in self.items[i])


class Transcriber(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.conv = nn.Conv1d(BINS, width, 5, padding=2)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)
        self.onset_head = nn.Linear(width, PITCHES)
        self.frame_head = nn.Linear(width + PITCHES, PITCHES)

    def forward(self, spec):
        z = F.gelu(self.conv(spec.transpose(1, 2))).transpose(1, 2)
        z = self.drop(self.norm(z))
        onset = self.onset_head(z)
        frame = self.frame_head(torch.cat([z, onset.sigmoid()], -1))
        return frame, onset


def criterion(outputs, roll, onset):
    frame_logit, onset_logit = outputs
    heavy = torch.full((PITCHES,), 4.0, device=roll.device)
    return F.binary_cross_entropy_with_logits(frame_logit, roll) + F.binary_cross_entropy_with_logits(
        onset_logit, onset, pos_weight=heavy
    )


@torch.no_grad()
def frame_f1(model, loader, device):
    model.eval()
    counts = torch.zeros(3, device=device)
    for spec, roll, _ in loader:
        hit = (model(spec.to(device))[0] > 0).float()
        roll = roll.to(device)
        counts += torch.stack([(hit * roll).sum(), hit.sum(), roll.sum()])
        torch_xla.sync()
    model.train()
    tp, guessed, actual = counts.tolist()
    return 2 * tp / max(guessed + actual, 1.0)


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    train = DataLoader(Excerpts(150, seed=1), batch_size=8, shuffle=True)
    valid = DataLoader(Excerpts(44, seed=2), batch_size=16)
    model = Transcriber().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=30)

    for epoch in range(5):
        last = len(train) - 1
        for i, (spec, roll, onset) in enumerate(train):
            loss = criterion(model(spec.to(device)), roll.to(device), onset.to(device)) / ACCUMULATE
            loss.backward()
            if i % ACCUMULATE == ACCUMULATE - 1 or i == last:
                nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            torch_xla.sync()
        print(f"epoch {epoch}: loss {ACCUMULATE * loss.item():.4f}  frame F1 {frame_f1(model, valid, device):.3f}")


if __name__ == "__main__":
    main()
