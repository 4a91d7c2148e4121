# mel -> waveform decoder, trained on short segments cut from the utterance
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

HOP = 8
N_MELS = 12
FRAMES = 40
SEG_FRAMES = 10


class Utterances(Dataset):

    def __init__(self, n=24, seed=3):
        g = np.random.RandomState(seed)
        t = np.arange(FRAMES * HOP) / 160.0
        freqs = g.uniform(2, 9, size=(n, 3))
        self.wav = np.sin(2 * np.pi * freqs[:, :, None] * t).mean(1).astype(np.float32)
        basis = g.randn(HOP, N_MELS).astype(np.float32)
        self.mel = np.abs(self.wav.reshape(n, FRAMES, HOP) @ basis).transpose(0, 2, 1)

    def __len__(self):
        return len(self.wav)

    def __getitem__(self, i):
        return torch.from_numpy(self.mel[i].copy()), torch.from_numpy(self.wav[i].copy())


class ResBlock(nn.Module):

    def __init__(self, ch, dilation):
        super().__init__()
        self.c1 = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)
        self.c2 = nn.Conv1d(ch, ch, 3, padding=1)

    def forward(self, x):
        y = self.c1(F.leaky_relu(x, 0.1))
        return x + self.c2(F.leaky_relu(y, 0.1))


class PriorEncoder(nn.Module):

    def __init__(self, ch=16):
        super().__init__()
        self.pre = nn.Conv1d(N_MELS, ch, 5, padding=2)
        self.norm = nn.GroupNorm(4, ch)
        self.res = ResBlock(ch, 2)

    def forward(self, mel):
        return self.res(self.norm(self.pre(torch.log1p(mel))))


class WaveDecoder(nn.Module):

    def __init__(self, ch=16):
        super().__init__()
        self.up1 = nn.ConvTranspose1d(ch, ch // 2, 4, stride=4)
        self.up2 = nn.ConvTranspose1d(ch // 2, ch // 2, 2, stride=2)
        self.res = ResBlock(ch // 2, 1)
        self.post = nn.Conv1d(ch // 2, 1, 7, padding=3)

    def forward(self, z):
        h = self.up1(F.leaky_relu(z, 0.1))
        h = self.up2(F.leaky_relu(h, 0.1))
        return torch.tanh(self.post(self.res(h))).squeeze(1)


class Vocoder(nn.Module):

    def __init__(self):
        super().__init__()
        self.encoder = PriorEncoder()
        self.decoder = WaveDecoder()

    def forward(self, mel):
        z = self.encoder(mel)
        begin = random.randint(0, FRAMES - SEG_FRAMES)
        return self.decoder(z[:, :, begin:begin + SEG_FRAMES]), begin


def frame_energy(wav):
    power = F.avg_pool1d(wav.pow(2).unsqueeze(1), 2 * HOP, stride=HOP)
    return torch.log(power.squeeze(1) + 1e-5)


def train():
    random.seed(1234)
    torch.manual_seed(1234)
    device = torch_xla.device()
    model = Vocoder().to(device)
    optim = torch.optim.SGD(model.parameters(), lr=2e-2, weight_decay=1e-4)
    loader = DataLoader(Utterances(), batch_size=4, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    def report(step, loss):
        print("step", step, "loss", round(loss.item(), 4))

    for step, (mel, wav) in enumerate(loader):
        optim.zero_grad()
        pred, begin = model(mel)
        target = wav[:, begin * HOP:(begin + SEG_FRAMES) * HOP]
        loss = F.l1_loss(pred, target) + 0.1 * F.mse_loss(frame_energy(pred), frame_energy(target))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        xm.optimizer_step(optim)
        xm.add_step_closure(report, args=(step, loss))


train()
