"""Transfer learning with a small timm ViT: linear probe first, then the whole network, with an averaged copy."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from timm.loss import LabelSmoothingCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2

PROBE_EPOCHS = 2
TUNE_EPOCHS = 5
ITERS_PER_EPOCH = 30
BATCH = 16
CLASSES = 4


class Shapes:
    """Random coloured bars; the label is the orientation/colour combination."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self):
        y = torch.randint(0, CLASSES, (BATCH,), generator=self.g)
        x = 0.3 * torch.randn(BATCH, 3, 16, 16, generator=self.g)
        for i, c in enumerate(y.tolist()):
            k = int(torch.randint(2, 13, (1,), generator=self.g))
            if c % 2:
                x[i, c // 2, k : k + 2, :] += 1.5
            else:
                x[i, c // 2, :, k : k + 2] += 1.5
        return x, y


def build(device):
    model = VisionTransformer(
        img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2, mlp_ratio=2.0, num_classes=CLASSES
    )
    return model.to(device)


def set_backbone_trainable(model, flag):
    head = {id(p) for p in model.get_classifier().parameters()}
    for p in model.parameters():
        if id(p) not in head:
            p.requires_grad_(flag)


def train_epoch(model, data, opt, loss_fn, device, ema=None):
    model.train()
    meter = AverageMeter()
    for it in range(ITERS_PER_EPOCH):
        x, y = data.batch()
        loss = loss_fn(model(x.to(device)), y.to(device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if ema is not None:
            ema.update(model)
        xm.mark_step()
        if it % 10 == 9:
            meter.update(loss.item(), BATCH)
    return meter.avg


@torch.no_grad()
def validate(model, data, device, n=6):
    model.eval()
    hits = torch.zeros((), device=device)
    for _ in range(n):
        x, y = data.batch()
        hits += (model(x.to(device)).argmax(1) == y.to(device)).float().sum()
        xm.mark_step()
    return hits.item() / (n * BATCH)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    model = build(device)
    loss_fn = LabelSmoothingCrossEntropy(0.1)

    set_backbone_trainable(model, False)
    opt = create_optimizer_v2(model.get_classifier(), opt="sgd", lr=0.05, momentum=0.9)
    for epoch in range(PROBE_EPOCHS):
        loss = train_epoch(model, Shapes(100 + epoch), opt, loss_fn, device)
        print(f"probe {epoch} loss {loss:.3f} acc {validate(model, Shapes(7), device):.3f}")

    set_backbone_trainable(model, True)
    opt = create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9)
    sched = CosineLRScheduler(opt, t_initial=TUNE_EPOCHS, lr_min=1e-3, warmup_t=1, warmup_lr_init=5e-3)
    ema = ModelEmaV2(model, decay=0.95)
    for epoch in range(TUNE_EPOCHS):
        loss = train_epoch(model, Shapes(200 + epoch), opt, loss_fn, device, ema)
        sched.step(epoch + 1)
        acc, acc_ema = validate(model, Shapes(7), device), validate(ema.module, Shapes(7), device)
        print(f"tune {epoch} loss {loss:.3f} acc {acc:.3f} averaged {acc_ema:.3f}")


if __name__ == "__main__":
    main()
