"""Source training of a small EfficientNet, then adaptation of its normalisation layers to a shifted domain."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from timm.models._efficientnet_builder import decode_arch_def
from timm.models.efficientnet import EfficientNet
from timm.scheduler import CosineLRScheduler
from timm.utils import accuracy

CLASSES, SIDE, BATCH = 6, 20, 16


class Gratings:
    """Oriented gratings; the target domain has another contrast, an offset and a colour cast."""

    def __init__(self, seed, shifted=False):
        self.gen = torch.Generator().manual_seed(seed)
        self.shifted = shifted
        axis = torch.linspace(-1, 1, SIDE)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def batch(self):
        y = torch.randint(CLASSES, (BATCH,), generator=self.gen)
        theta = y.float() * torch.pi / CLASSES
        phase = torch.rand(BATCH, generator=self.gen) * 6.28
        wave = torch.sin(9.0 * (theta.cos().view(-1, 1, 1) * self.xx + theta.sin().view(-1, 1, 1) * self.yy)
                         + phase.view(-1, 1, 1))
        img = wave.unsqueeze(1).repeat(1, 3, 1, 1)
        img = img + 0.3 * torch.randn(img.shape, generator=self.gen)
        if self.shifted:
            img = 0.45 * img + torch.tensor([0.9, 0.2, -0.4]).view(1, 3, 1, 1)
        return img, y


def build_model():
    arch = [
        ["ds_r1_k3_s1_e1_c8"],
        ["ir_r1_k3_s2_e2_c12"],
    ]
    return EfficientNet(
        block_args=decode_arch_def(arch),
        num_classes=CLASSES,
        num_features=32,
        stem_size=8,
        drop_rate=0.1,
    )


def norm_layers(model):
    return [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]


def prepare_for_target(model):
    """Only the affine terms of the normalisation layers learn; statistics are collected afresh."""
    model.train()
    model.requires_grad_(False)
    params = []
    for m in norm_layers(model):
        m.reset_running_stats()
        m.momentum = None
        m.weight.requires_grad_(True)
        m.bias.requires_grad_(True)
        params += [m.weight, m.bias]
    model.classifier.eval()
    return params


def information_loss(logits, weight):
    p = logits.softmax(-1)
    conditional = -(p * logits.log_softmax(-1)).sum(-1).mean()
    marginal = p.mean(0)
    diversity = -(marginal * (marginal + 1e-6).log()).sum()
    return conditional - weight * diversity, conditional


@torch.no_grad()
def evaluate(model, stream, device, batches=3):
    training = model.training
    model.eval()
    top1 = []
    for _ in range(batches):
        x, y = stream.batch()
        x, y = x.to(device), y.to(device)
        top1.append(accuracy(model(x), y, topk=(1,))[0])
        torch_xla.sync()
    model.train(training)
    return sum(t.item() for t in top1) / batches


def train_source(model, device, steps=10):
    stream = Gratings(1)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    sched = CosineLRScheduler(opt, t_initial=steps, lr_min=2e-4, warmup_t=3, warmup_lr_init=5e-4, t_in_epochs=False)
    model.train()
    for step in range(steps):
        x, y = stream.batch()
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step_update(step + 1)
        torch_xla.sync()
    xm.master_print(f"source  loss {loss.item():.3f}")


def adapt(model, device, steps=20):
    stream = Gratings(2, shifted=True)
    opt = torch.optim.SGD(prepare_for_target(model), lr=5e-2, momentum=0.9)
    history = []
    for step in range(steps):
        x, _ = stream.batch()
        loss, entropy = information_loss(model(x.to(device)), weight=0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        history.append(entropy.detach())
        if (step + 1) % 10 == 0:
            top1 = evaluate(model, Gratings(3, shifted=True), device)
            mean = torch.stack(history[-10:]).mean().item()
            xm.master_print(f"adapt {step + 1:3d}  entropy {mean:.3f}  top1 {top1:.1f}")


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    torch_xla.manual_seed(17)
    model = build_model().to(device)
    train_source(model, device)
    xm.master_print(f"source model on target  top1 {evaluate(model, Gratings(3, shifted=True), device):.1f}")
    adapt(model, device)


if __name__ == "__main__":
    main()
