"""Quantization-aware fine-tuning (LSQ, 4 bit) of a small convnet with a float teacher."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def grad_scale(x, scale):
    return (x - x * scale).detach() + x * scale


def round_pass(x):
    return (x.round() - x).detach() + x


class LsqQuantizer(nn.Module):
    def __init__(self, bits, signed):
        super().__init__()
        self.low, self.high = (-2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else (0, 2 ** bits - 1)
        self.step = nn.Parameter(torch.tensor(0.1))

    def init_from(self, x):
        with torch.no_grad():
            self.step.copy_(2 * x.abs().mean() / self.high ** 0.5)

    def forward(self, x):
        step = grad_scale(self.step, 1.0 / (self.high * x.numel()) ** 0.5)
        return round_pass((x / step).clamp(self.low, self.high)) * step


class QuantConv2d(nn.Conv2d):
    def __init__(self, *args, bits=4, **kwargs):
        super().__init__(*args, **kwargs)
        self.weight_q = LsqQuantizer(bits, signed=True)
        self.act_q = LsqQuantizer(bits, signed=False)
        self.weight_q.init_from(self.weight)

    def forward(self, x):
        return F.conv2d(self.act_q(x), self.weight_q(self.weight), self.bias, self.stride, self.padding)


def network(conv, ch=8):
    return nn.Sequential(
        nn.Conv2d(3, ch, 3, padding=1, bias=False), nn.BatchNorm2d(ch), nn.ReLU(),
        conv(ch, 2 * ch, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * ch), nn.ReLU(),
        conv(2 * ch, 2 * ch, 1, bias=False), nn.BatchNorm2d(2 * ch), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * ch, 10),
    )


def distillation_loss(student, teacher, target, temperature=4.0, alpha=0.7):
    soft = F.kl_div(
        F.log_softmax(student / temperature, 1), F.softmax(teacher / temperature, 1), reduction="batchmean"
    ) * temperature ** 2
    return alpha * soft + (1 - alpha) * F.cross_entropy(student, target)


def images(n):
    g = torch.Generator().manual_seed(6)
    for _ in range(n):
        yield torch.rand(4, 3, 12, 12, generator=g), torch.randint(0, 10, (4,), generator=g)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    teacher = network(nn.Conv2d).to(device).eval()
    student = network(QuantConv2d).to(device)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step, (image, target) in enumerate(images(6)):
        image, target = image.to(device), target.to(device)
        with torch.no_grad():
            soft_target = teacher(image)
        optimizer.zero_grad()
        loss = distillation_loss(student(image), soft_target, target)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
