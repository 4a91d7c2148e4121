"""Event-camera gestures, leaky integrate-and-fire layers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met


class FastSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, slope):
        ctx.save_for_backward(v)
        ctx.slope = slope
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g / (ctx.slope * v.abs() + 1.0) ** 2, None


class LIF(nn.Module):
    def __init__(self, units, beta=0.9, threshold=1.0, slope=25.0):
        super().__init__()
        self.decay = nn.Parameter(torch.full((units,), beta))
        self.threshold = threshold
        self.slope = slope

    def forward(self, current, mem):
        mem = self.decay.clamp(0, 1) * mem + current
        spk = FastSigmoid.apply(mem - self.threshold, self.slope)
        mem = mem - spk.detach() * self.threshold
        return spk, mem


class GestureNet(nn.Module):
    def __init__(self, n_class=5):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, stride=2, bias=False)
        self.fc1 = nn.Linear(6 * 4 * 4, 20)
        self.lif1 = LIF(20)
        self.rec = nn.Linear(20, 20, bias=False)
        self.fc2 = nn.Linear(20, n_class, bias=False)
        self.lif2 = LIF(n_class)

    def forward(self, frames):
        b = frames.shape[1]
        m1 = frames.new_zeros(b, 20)
        s1 = frames.new_zeros(b, 20)
        m2 = frames.new_zeros(b, self.fc2.out_features)
        out, rate = [], 0.0
        for x in frames:
            h = F.relu(self.conv(x)).flatten(1)
            s1, m1 = self.lif1(self.fc1(h) + self.rec(s1), m1)
            s2, m2 = self.lif2(self.fc2(s1), m2)
            out.append(s2)
            rate = rate + s1.mean()
        return torch.stack(out), rate / len(out)


def rate_loss(spikes, label, rate):
    return F.cross_entropy(spikes.sum(0), label) + 0.1 * (rate - 0.15) ** 2


def main():
    torch.manual_seed(10)
    gen = torch.Generator().manual_seed(12)
    device = torch_xla.device()
    net = GestureNet().to(device)
    opt = torch.optim.Adamax(net.parameters(), lr=4e-3)
    torch_xla.sync()
    for step in range(4):
        frames = (torch.rand(4, 7, 2, 10, 10, generator=gen) < 0.2).float().to(device)
        label = torch.randint(0, 5, (7,), generator=gen).to(device)
        opt.zero_grad()
        spikes, rate = net(frames)
        loss = rate_loss(spikes, label, rate)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
