"""SimCLR pre-training of a tiny ViT."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from timm.models.vision_transformer import VisionTransformer


class SimCLR(nn.Module):
    def __init__(self, dim=16, proj_dim=12):
        super().__init__()
        self.backbone = VisionTransformer(
            img_size=16, patch_size=8, in_chans=1, embed_dim=dim, depth=1, num_heads=2,
            mlp_ratio=2.0, num_classes=0, class_token=False, global_pool="avg")
        self.projector = nn.Sequential(
            nn.Linear(dim, dim), nn.ReLU(inplace=True), nn.Linear(dim, proj_dim))

    def forward(self, x):
        return self.projector(self.backbone(x))


def nt_xent(z1, z2, temperature):
    n = z1.shape[0]
    z = F.normalize(torch.cat([z1, z2], dim=0), dim=1)
    sim = z @ z.t() / temperature
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), float("-inf"))
    target = torch.arange(2 * n, device=z.device)
    target = (target + n) % (2 * n)
    return F.cross_entropy(sim, target)


def augment(images, generator):
    out = images + 0.1 * torch.randn(images.shape, generator=generator)
    flip = torch.rand(len(images), generator=generator) < 0.5
    out[flip] = out[flip].flip(-1)
    return out


def train(model, steps=6, batch_size=8, temperature=0.2):
    device = torch_xla.device()
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(64, 1, 16, 16, generator=generator)
    losses = []
    for step in range(steps):
        images = data[torch.randint(0, len(data), (batch_size,), generator=generator)]
        x1 = augment(images, generator).to(device)
        x2 = augment(images, generator).to(device)
        z1, z2 = model(torch.cat([x1, x2])).chunk(2)
        loss = nt_xent(z1, z2, temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.item())
        print(f"step {step} loss {losses[-1]:.6f}")
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    train(SimCLR())
