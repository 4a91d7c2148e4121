import numpy as np
import timm
import torch
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from torch.utils.data import DataLoader, TensorDataset


def dataset(n=40):
    g = torch.Generator().manual_seed(0)
    return TensorDataset(torch.rand(n, 3, 16, 16, generator=g), torch.randint(0, 6, (n,), generator=g))


def train(model, loader, mixup, device):
    criterion = SoftTargetCrossEntropy()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model.train()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        images, soft = mixup(images, labels)
        loss = criterion(model(images), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch_xla.device()
    vit = timm.create_model("vit_tiny_patch16_224", img_size=16, patch_size=4, embed_dim=24, depth=1,
                            num_heads=2, num_classes=6, pretrained=False).to(device)
    mixup = Mixup(mixup_alpha=0.0, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=6)
    train(vit, DataLoader(dataset(), batch_size=4, shuffle=True, drop_last=True), mixup, device)
