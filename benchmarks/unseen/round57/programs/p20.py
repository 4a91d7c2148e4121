"""Quantization-aware training of a small CNN: float warm-up, then fake quantization with live observers,
then frozen ranges and frozen batch-norm statistics; the best state is restored at the end."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

QAT_START, FREEZE_START, STEPS = 10, 22, 56


def round_ste(x):
    return x + (torch.round(x) - x).detach()


class Observer(nn.Module):
    def __init__(self, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.enabled = True
        self.register_buffer("amax", torch.ones(()))

    def forward(self, x):
        if self.enabled and self.training:
            self.amax.lerp_(x.detach().abs().max(), self.momentum)
        return self.amax


class FakeQuant(nn.Module):
    def __init__(self, bits, per_channel=False):
        super().__init__()
        self.qmax = 2 ** (bits - 1) - 1
        self.per_channel = per_channel
        self.active = False
        if not per_channel:
            self.observer = Observer()

    def forward(self, x):
        if self.per_channel:
            amax = x.detach().abs().flatten(1).amax(1).view(-1, *[1] * (x.dim() - 1))
        else:
            amax = self.observer(x)
        if not self.active:
            return x
        scale = amax.clamp(min=1e-5) / self.qmax
        return round_ste((x / scale).clamp(-self.qmax, self.qmax)) * scale


class QConvBN(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout)
        self.wq, self.aq = FakeQuant(4, per_channel=True), FakeQuant(8)

    def forward(self, x):
        w = self.wq(self.conv.weight)
        y = F.conv2d(self.aq(x), w, stride=self.conv.stride, padding=self.conv.padding)
        return F.relu(self.norm(y))

    def norm(self, y):
        if self.bn.training:
            return self.bn(y)
        gain = self.bn.weight * torch.rsqrt(self.bn.running_var + self.bn.eps)
        shift = self.bn.bias - self.bn.running_mean * gain
        return y * gain.view(-1, 1, 1) + shift.view(-1, 1, 1)


class QNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.body = nn.Sequential(QConvBN(1, 8, 1), QConvBN(8, 12, 2))
        self.fc = nn.Linear(12, classes)
        self.freeze_bn = False

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))

    def enable_fake_quant(self):
        for m in self.modules():
            if isinstance(m, FakeQuant):
                m.active = True

    def freeze(self):
        self.freeze_bn = True
        for m in self.modules():
            if isinstance(m, Observer):
                m.enabled = False
        self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        if self.freeze_bn:
            for m in self.modules():
                if isinstance(m, nn.BatchNorm2d):
                    m.eval()
        return self


class Textures:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        y = torch.randint(0, 5, (n,), generator=self.g)
        yy, xx = torch.meshgrid(torch.arange(12.), torch.arange(12.), indexing="ij")
        theta = (y.float() * 0.628).view(-1, 1, 1)
        phase = torch.rand(n, 1, 1, generator=self.g) * 6.28
        img = torch.sin((xx * theta.cos() + yy * theta.sin()) * 1.3 + phase)
        return (img + 0.4 * torch.randn(n, 12, 12, generator=self.g)).unsqueeze(1), y


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    acc = (model(x).argmax(-1) == y).float().mean()
    torch_xla.sync()
    model.train()
    return acc.item()


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    data = Textures(42)
    x_val, y_val = (t.to(device) for t in data.batch(128))
    model = QNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    best_acc, best_state = 0.0, None

    for step in range(STEPS):
        if step == QAT_START:
            model.enable_fake_quant()
        if step == FREEZE_START:
            model.freeze()
        for group in opt.param_groups:
            group["lr"] = 1e-2 if step < QAT_START else 4e-3 * (1 - (step - QAT_START) / STEPS)
        x, y = (t.to(device) for t in data.batch(32))
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        torch_xla.sync()
        if (step + 1) % 7 == 0:
            acc = accuracy(model, x_val, y_val)
            xm.master_print(f"step {step + 1} loss {loss.item():.3f} val {acc:.3f}")
            if step >= QAT_START and acc > best_acc:
                best_acc = acc
                best_state = copy.deepcopy({k: v.cpu() for k, v in model.state_dict().items()})

    model.load_state_dict(best_state)
    xm.master_print(f"restored {accuracy(model, x_val, y_val):.3f} (best {best_acc:.3f})")


if __name__ == "__main__":
    main()
