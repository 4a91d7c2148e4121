"""Image classification with a small ViT; mixing is done on the device after the transfer."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2

NUM_CLASSES = 12
IMG_SIZE = 32


def build_model():
    return VisionTransformer(
        img_size=IMG_SIZE,
        patch_size=8,
        in_chans=3,
        num_classes=NUM_CLASSES,
        embed_dim=32,
        depth=1,
        num_heads=2,
        mlp_ratio=2.0,
        global_pool="avg",
    )


class SyntheticImages(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, IMG_SIZE, IMG_SIZE, generator=g), i % NUM_CLASSES


def to_device(images, target, device, mean, std):
    images = images.to(device)
    target = target.to(device)
    return images.sub(mean).div(std), target


def train_one_epoch(model, loader, optimizer, loss_fn, mixup_fn, device):
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)
    torch_xla.sync()
    losses = []
    model.train()
    for images, target in loader:
        images, target = to_device(images, target, device, mean, std)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


def main():
    torch.manual_seed(3)
    np.random.seed(3)
    device = torch_xla.device()
    model = build_model().to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=5e-4, weight_decay=0.05)
    loader = torch.utils.data.DataLoader(SyntheticImages(64), batch_size=8, shuffle=True, drop_last=True)
    mixup_fn = Mixup(
        mixup_alpha=0.8,
        cutmix_alpha=1.0,
        prob=1.0,
        switch_prob=0.5,
        mode="batch",
        label_smoothing=0.1,
        num_classes=NUM_CLASSES,
    )
    loss_fn = SoftTargetCrossEntropy()
    for epoch in range(1):
        loss = train_one_epoch(model, loader, optimizer, loss_fn, mixup_fn, device)
        xm.master_print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
