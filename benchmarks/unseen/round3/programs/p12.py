import random

import torch
import torch.nn as nn
import torch_xla

from p12_augment import AudioAugment


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 8, 8, stride=4), nn.GELU(), nn.Conv1d(8, 8, 4, stride=2), nn.GELU())
        self.head = nn.Linear(8, 6)

    def forward(self, wave):
        return nn.functional.normalize(self.head(self.net(wave[:, None]).mean(-1)), dim=1)


def nt_xent(a, b, temp=0.3):
    sim = torch.cat([a, b]) @ torch.cat([a, b]).t() / temp
    n = len(a)
    sim = sim - 1e4 * torch.eye(2 * n, device=a.device)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)]).to(a.device)
    return nn.functional.cross_entropy(sim, target)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    augment = AudioAugment(random.Random(2))
    encoder = Encoder().to(device)
    opt = torch.optim.AdamW(encoder.parameters(), lr=3e-3)
    for i in range(10):
        wave = torch.randn(5, 128).to(device)
        loss = nt_xent(encoder(augment(wave)), encoder(augment(wave)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, loss.item())


main()
