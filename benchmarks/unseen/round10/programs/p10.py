"""Stacked denoising autoencoder for sensor windows: greedy layer-wise training, then fine-tuning."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

WINDOW, CHANNELS = 24, 3


def sensor_windows(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(WINDOW)
    freq = rng.uniform(0.1, 0.5, (n, CHANNELS, 1))
    phase = rng.uniform(0, 6.28, (n, CHANNELS, 1))
    signal = np.sin(freq * t + phase) + 0.05 * rng.normal(size=(n, CHANNELS, WINDOW))
    return torch.tensor(signal.reshape(n, -1), dtype=torch.float32)


class Layer(nn.Module):
    def __init__(self, d_in, d_out, last):
        super().__init__()
        self.enc, self.dec = nn.Linear(d_in, d_out), nn.Linear(d_out, d_in)
        self.last = last

    def encode(self, x):
        return torch.tanh(self.enc(x))

    def decode(self, h):
        y = self.dec(h)
        return y if self.last else torch.tanh(y)


class StackedAE(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = nn.ModuleList(Layer(a, b, i == 0) for i, (a, b) in enumerate(zip(dims[:-1], dims[1:])))

    def encode(self, x, depth):
        for layer in self.layers[:depth]:
            x = layer.encode(x)
        return x

    def forward(self, x):
        h = self.encode(x, len(self.layers))
        for layer in reversed(self.layers):
            h = layer.decode(h)
        return h


def fit(name, params, objective, data, epochs, batch, lr, device):
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        order = torch.randperm(len(data))
        losses = []
        for i in range(0, len(data), batch):
            x = data[order[i:i + batch]].to(device)
            opt.zero_grad()
            loss = objective(x)
            loss.backward()
            opt.step()
            xm.mark_step()
            losses.append(loss.item())
        print(f"{name} epoch {epoch}: {np.mean(losses):.4f}")


def corrupt(x, p=0.2):
    return x * (torch.rand_like(x) > p).to(x.dtype)


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    train, test = sensor_windows(192, 0), sensor_windows(32, 1)
    test[:8] += torch.randn(8, test.size(1))
    model = StackedAE([WINDOW * CHANNELS, 48, 24, 8]).to(device)

    for depth, layer in enumerate(model.layers):
        def objective(x, depth=depth, layer=layer):
            with torch.no_grad():
                h = model.encode(x, depth)
            return F.mse_loss(layer.decode(layer.encode(corrupt(h))), h)

        fit(f"layer {depth}", layer.parameters(), objective, train, epochs=2, batch=32, lr=3e-3, device=device)

    fit("finetune", model.parameters(), lambda x: F.mse_loss(model(corrupt(x)), x), train,
        epochs=3, batch=32, lr=1e-3, device=device)

    with torch.no_grad():
        x = test.to(device)
        score = (model(x) - x).square().mean(dim=-1)
    xm.mark_step()
    score = score.cpu()
    print(f"anomaly score: odd {score[:8].mean():.3f} usual {score[8:].mean():.3f}")


if __name__ == "__main__":
    main()
