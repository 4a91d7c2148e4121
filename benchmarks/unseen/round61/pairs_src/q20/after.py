"""SimCLR pre-training of a tiny ViT."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
from timm.layers import set_fused_attn
from timm.models.vision_transformer import VisionTransformer

set_fused_attn(False)


@dataclass
class TrainConfig:
    steps: int = 6
    batch_size: int = 8
    temperature: float = 0.2
    lr: float = 3e-3
    weight_decay: float = 0.05


def mlp(*sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.ReLU(inplace=True)] if i else []
        layers.append(nn.Linear(a, b))
    return nn.Sequential(*layers)


class NTXent(nn.Module):
    """-log softmax of the positive among the 2n - 1 other embeddings."""

    def __init__(self, n, temperature):
        super().__init__()
        self.temperature = temperature
        self.register_buffer("self_pair", torch.eye(2 * n, dtype=torch.bool), persistent=False)

    def forward(self, z):
        z = z / z.norm(dim=1, keepdim=True).clamp_min(1e-12)
        z1, z2 = z.chunk(2)
        positive = (z1 * z2).sum(dim=1).div(self.temperature)
        logits = torch.einsum("id,jd->ij", z, z).div(self.temperature)
        denominator = logits.masked_fill(self.self_pair, float("-inf")).logsumexp(dim=1)
        return denominator.mean() - positive.mean()


class SimCLR(nn.Module):
    def __init__(self, dim=16, proj_dim=12):
        super().__init__()
        self.projector = mlp(dim, dim, proj_dim)
        self.backbone = VisionTransformer(
            img_size=16, patch_size=8, in_chans=1, embed_dim=dim, depth=1, num_heads=2,
            mlp_ratio=2.0, num_classes=0, class_token=False, global_pool="avg")

    def forward(self, x):
        return self.projector(self.backbone(x))


def augment(images, generator):
    out = images + 0.1 * torch.randn(images.shape, generator=generator)
    flip = torch.rand(len(images), generator=generator) < 0.5
    out[flip] = out[flip].flip(-1)
    return out


def train(model, cfg=TrainConfig()):
    device = torch_xla.device()
    model = model.to(device).train()
    criterion = NTXent(cfg.batch_size, cfg.temperature).to(device)
    optimizer = torch.optim.AdamW(
        [{"params": model.backbone.parameters()}, {"params": model.projector.parameters()}],
        lr=cfg.lr, weight_decay=cfg.weight_decay)
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(64, 1, 16, 16, generator=generator)
    losses = []
    for step in range(cfg.steps):
        images = data[torch.randint(0, len(data), (cfg.batch_size,), generator=generator)]
        views = torch.cat([augment(images, generator), augment(images, generator)]).to(device)
        loss = criterion(model(views))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.item())
        print(f"step {step} loss {losses[-1]:.6f}")
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    train(SimCLR())
