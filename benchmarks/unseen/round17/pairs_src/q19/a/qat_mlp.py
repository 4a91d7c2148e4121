"""Quantisation-aware training of a keyword-spotting net (int8 weights and activations)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class FakeQuant(torch.autograd.Function):
    """Rounds to the int8 grid; straight-through gradient inside the range."""

    @staticmethod
    def forward(ctx, x, scale):
        q = x / scale
        ctx.save_for_backward(q)
        return torch.clamp(torch.round(q), -127.0, 127.0) * scale

    @staticmethod
    def backward(ctx, grad):
        (q,) = ctx.saved_tensors
        return grad * (q.abs() <= 127.0), None


class QuantLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * n_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.register_buffer("act_max", torch.ones(1))

    def forward(self, x):
        with torch.no_grad():
            self.act_max.copy_(0.9 * self.act_max + 0.1 * x.abs().max())
        w_scale = self.weight.detach().abs().amax(dim=1, keepdim=True) / 127.0
        x_scale = self.act_max.clone() / 127.0
        x = FakeQuant.apply(x, x_scale)
        w = FakeQuant.apply(self.weight, w_scale)
        return F.linear(x, w, self.bias)


class KeywordNet(nn.Module):
    def __init__(self, n_mfcc=40, hidden=64, keywords=12):
        super().__init__()
        self.fc1 = QuantLinear(n_mfcc, hidden)
        self.fc2 = QuantLinear(hidden, hidden)
        self.fc3 = QuantLinear(hidden, hidden)
        self.fc4 = QuantLinear(hidden, keywords)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = F.relu(self.fc3(x))
        return self.fc4(x)


def features(batch, steps, seed=8):
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(12, 40, generator=g)
    for _ in range(steps):
        y = torch.randint(0, 12, (batch,), generator=g)
        yield centre[y] + 0.5 * torch.randn(batch, 40, generator=g), y


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = KeywordNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (x, y) in enumerate(features(16, 4)):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        xm.master_print(f"step {step}: loss {loss.item():.4f}")
    xm.save(model.state_dict(), "kws_qat.pt")


if __name__ == "__main__":
    main()
