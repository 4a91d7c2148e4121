import timm
import torch
import torch.nn as nn
import torch_xla
from timm.loss import LabelSmoothingCrossEntropy

CLASSES = 12


def build_model():
    return timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=1,
        num_heads=4,
        num_classes=CLASSES,
        drop_rate=0.0,
        drop_path_rate=0.0,
    )


def build_optimizer(model, lr=1e-2, momentum=0.9, weight_decay=5e-4):
    params = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(params, lr=lr, momentum=momentum, weight_decay=weight_decay)


def warmup(opt, n, steps, base):
    for g in opt.param_groups:
        g["lr"] = base * (n + 1) / steps if n < steps else base


def mixup(images, alpha=0.2):
    lam = torch.distributions.Beta(alpha, alpha).sample().to(images.device)
    return lam * images + (1 - lam) * images.flip(0), lam


class SyntheticImages(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 3, 32, 32, generator=g)
        self.y = torch.randint(0, CLASSES, (n,), generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train_one_epoch(model, loader, opt, criterion, device):
    model.train()
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for n, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        warmup(opt, n, steps=10, base=1e-2)
        mixed, lam = mixup(images)
        logits = model(mixed)
        loss = lam * criterion(logits, target) + (1 - lam) * criterion(logits, target.flip(0))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        correct += (logits.detach().argmax(-1) == target).sum()
        torch_xla.sync()
    return correct.item() / len(loader.dataset)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build_model().to(device)
    opt = build_optimizer(model)
    loader = torch.utils.data.DataLoader(SyntheticImages(32), batch_size=8, drop_last=True)
    acc = train_one_epoch(model, loader, opt, LabelSmoothingCrossEntropy(0.1), device)
    print("acc", acc)


if __name__ == "__main__":
    main()
