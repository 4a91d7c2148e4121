"""Gearbox fault detection for wind turbines from vibration and temperature."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met

BATCH, SAMPLES, CHANNELS, FAULTS = 16, 48, 4, 5


class VibrationNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.conv1 = nn.Conv1d(2, c, 7, stride=2, padding=3)
        self.conv2 = nn.Conv1d(c, c, 5, stride=2, padding=2)
        self.fc = nn.Linear(c, 20)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return torch.tanh(self.fc(x.mean(-1)))


class TemperatureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(CHANNELS * 8, 28)
        self.fc2 = nn.Linear(28, 14)

    def forward(self, x):
        return F.silu(self.fc2(F.silu(self.fc1(x.flatten(1)))))


class Gearbox(nn.Module):
    def __init__(self):
        super().__init__()
        self.vibration = VibrationNet()
        self.temperature = TemperatureNet()
        self.head = nn.Linear(34, FAULTS)

    def forward(self, vib, temp):
        v = self.vibration(vib)
        t = self.temperature(temp)
        return self.head(torch.cat([v, t], dim=1))


def readings(gen):
    fault = torch.randint(0, FAULTS, (BATCH,), generator=gen)
    t = torch.arange(SAMPLES) / SAMPLES
    freq = (3 + 2 * fault).float()[:, None]
    vib = torch.stack([torch.sin(6.28 * freq * t), torch.cos(6.28 * freq * t)], 1)
    vib = vib + 0.5 * torch.randn(vib.shape, generator=gen)
    temp = torch.randn(BATCH, CHANNELS, 8, generator=gen) + fault[:, None, None] * 0.2
    return vib, temp, fault


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = Gearbox().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    for step in range(40):
        vib, temp, fault = (t.to(device) for t in readings(gen))
        loss = F.cross_entropy(model(vib, temp), fault)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 10 == 9:
            print(f"{step + 1} loss {loss.item():.4f} compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
