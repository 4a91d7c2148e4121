"""Fine-grained image classification: small timm ViT, mixup with soft targets, averaged weights."""
import numpy as np
import timm
import torch
import torch.nn.functional as F
import torch_xla

CONFIG = {
    "model": {
        "img_size": 32,
        "patch_size": 8,
        "embed_dim": 32,
        "depth": 1,
        "num_heads": 4,
        "mlp_ratio": 2.0,
        "num_classes": 12,
        "global_pool": "token",
    },
    "optim": {"lr": 0.02, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": True},
    "mixup_alpha": 0.2,
    "smoothing": 0.1,
    "batch_size": 6,
    "ema_decay": 0.99,
    "steps": 4,
}


def build_model(cfg):
    return timm.models.vision_transformer.VisionTransformer(**cfg)


class Mixup:
    def __init__(self, alpha, num_classes, smoothing, seed=0):
        self.alpha, self.num_classes, self.smoothing = alpha, num_classes, smoothing
        self.rng = np.random.default_rng(seed)

    def __call__(self, images, target):
        lam = torch.tensor(self.rng.beta(self.alpha, self.alpha), dtype=torch.float32)
        off = self.smoothing / self.num_classes
        soft = torch.full((len(target), self.num_classes), off).scatter_(1, target[:, None], 1 - self.smoothing + off)
        return images * lam + images.flip(0) * (1 - lam), soft * lam + soft.flip(0) * (1 - lam)


def soft_target_loss(logits, target):
    return (-target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build_model(cfg["model"]).to(device).train()
    opt = torch.optim.SGD(model.parameters(), **cfg["optim"])
    mixup = Mixup(cfg["mixup_alpha"], cfg["model"]["num_classes"], cfg["smoothing"])
    loss_ema = torch.zeros((), device=device)
    correct = torch.zeros((), device=device)
    for step in range(cfg["steps"]):
        size = cfg["model"]["img_size"]
        images = torch.randn(cfg["batch_size"], 3, size, size)
        target = torch.randint(0, cfg["model"]["num_classes"], (cfg["batch_size"],))
        images, soft = mixup(images, target)
        images, soft = images.to(device), soft.to(device)
        logits = model(images)
        loss = soft_target_loss(logits, soft)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            loss_ema = cfg["ema_decay"] * loss_ema + (1 - cfg["ema_decay"]) * loss
            correct = correct + (logits.argmax(-1) == soft.argmax(-1)).sum()
        torch_xla.sync()
    print(loss_ema.item(), correct.item())


if __name__ == "__main__":
    train(CONFIG)
