import random
import torch
import torch.nn as nn
import torch_xla

CLIP = 256


class Augment:
    def __init__(self, rng):
        self.rng = rng

    def crop(self, wave):
        offset = self.rng.randint(0, wave.shape[1] - CLIP)
        return wave[:, offset:offset + CLIP]

    def mask_bands(self, spec):
        f0 = self.rng.randint(0, 8)
        spec = spec.clone()
        spec[:, f0:f0 + 4] = 0
        return spec


class Keyword(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.front = nn.Conv1d(1, 16, 16, stride=8)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.fc = nn.Linear(16, classes)

    def features(self, wave):
        return torch.log1p(self.front(wave.unsqueeze(1)).abs())

    def forward(self, spec):
        return self.fc(torch.relu(self.conv(spec)).mean(-1))


def step(model, opt, aug, wave, label):
    spec = aug.mask_bands(model.features(aug.crop(wave)))
    loss = nn.functional.cross_entropy(model(spec), label)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    torch_xla.sync()
    return loss


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch_xla.device()
    aug = Augment(random.Random(13))
    model = Keyword().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for i in range(9):
        wave = torch.randn(4, 400).to(dev)
        label = torch.randint(0, 6, (4,)).to(dev)
        print(i, step(model, opt, aug, wave, label).item())
