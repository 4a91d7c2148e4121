"""Lesion classification with a tiny timm vision transformer, two classes, unbalanced.

Quality is watched during training through torchmetrics; the metrics live on the device, so that
an update does not transfer predictions.
"""
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryCalibrationError, BinaryF1Score

SIZE = 16
STEPS = 24
LOG_EVERY = 3


def lesions(n, seed):
    """Round spots on textured skin; malignant ones have a ragged border."""
    gen = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    label = (torch.rand(n, generator=gen) < 0.3).long()
    images = torch.randn(n, 3, SIZE, SIZE, generator=gen) * 0.2
    for i in range(n):
        cx, cy = (torch.rand(2, generator=gen) * 6 + 5).tolist()
        angle = torch.atan2(yy - cy, xx - cx)
        ragged = 1.2 * torch.sin(5 * angle) if label[i] else 0.0
        spot = ((xx - cx) ** 2 + (yy - cy) ** 2).float().sqrt() < 4 + ragged
        images[i, 0] += spot.float()
        images[i, 1] -= 0.5 * spot.float()
    return images, label


def build_model():
    return VisionTransformer(
        img_size=SIZE,
        patch_size=8,
        embed_dim=16,
        depth=1,
        num_heads=2,
        mlp_ratio=2.0,
        num_classes=1,
        drop_rate=0.1,
        global_pool="avg",
    )


def build_metrics(device):
    quality = MetricCollection(
        {
            "acc": BinaryAccuracy(validate_args=False),
            "f1": BinaryF1Score(validate_args=False),
            "ece": BinaryCalibrationError(n_bins=10, validate_args=False),
        }
    )
    return quality.to(device), MeanMetric(nan_strategy="disable").to(device)


def endless(loader):
    while True:
        for batch in loader:
            yield batch


def main():
    torch.manual_seed(19)
    device = torch_xla.device()
    loader = DataLoader(
        TensorDataset(*lesions(192, 19)), batch_size=16, shuffle=True, drop_last=True
    )

    model = build_model().to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=0.05, weight_decay=1e-4)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=STEPS, warmup_t=5, warmup_lr_init=1e-3, t_in_epochs=False
    )
    ema = ModelEmaV2(model, decay=0.95)
    quality, mean_loss = build_metrics(device)
    pos_weight = torch.tensor([2.0]).to(device)
    xm.mark_step()

    for step, (images, labels) in enumerate(endless(loader), start=1):
        images, labels = images.to(device), labels.to(device)
        flip = torch.rand(images.shape[0], 1, 1, 1, device=device) < 0.5
        images = torch.where(flip, images.flip(-1), images)

        logits = model(images).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=pos_weight)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        ema.update(model)
        scheduler.step_update(step)

        with torch.no_grad():
            prob = logits.detach().sigmoid()
            quality.update(prob, labels)
            mean_loss.update(loss.detach())
        xm.mark_step()

        if step % LOG_EVERY == 0:
            values = quality.compute()
            line = "  ".join(f"{k} {v.item():.3f}" for k, v in values.items())
            print(f"step {step:3d}  loss {mean_loss.compute().item():.4f}  {line}")
            mean_loss.reset()
        if step == STEPS:
            break


if __name__ == "__main__":
    main()
