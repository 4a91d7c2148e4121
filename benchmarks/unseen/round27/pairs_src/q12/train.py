# small-image classifier: progressive resizing, mixup for the early epochs
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy

CFG = dict(
    seed=3,
    num_classes=8,
    batch_size=16,
    epochs=2,
    steps_per_epoch=3,
    sizes=[12, 16],
    mixup=0.4,
    mixup_off_epoch=1,
    smoothing=0.1,
    lr=0.03,
    wd=1e-4,
)


class ConvBNAct(nn.Sequential):

    def __init__(self, cin, cout, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(cout),
            nn.SiLU(),
        )


class Residual(nn.Module):

    def __init__(self, dim):
        super().__init__()
        self.dw = ConvBNAct(dim, dim, groups=dim)
        self.pw = nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        return x + self.pw(self.dw(x))


class TinyNet(nn.Module):

    def __init__(self, num_classes):
        super().__init__()
        self.stem = ConvBNAct(3, 16, stride=2)
        self.block = Residual(16)
        self.down = ConvBNAct(16, 32, stride=2)
        self.fc = nn.Linear(32, num_classes)

    def forward(self, x):
        x = self.down(self.block(self.stem(x)))
        return self.fc(x.mean((2, 3)))


def fake_images(cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    n = cfg["batch_size"] * cfg["steps_per_epoch"]
    labels = torch.randint(cfg["num_classes"], (n,), generator=g)
    base = torch.randn(cfg["num_classes"], 3, 4, 4, generator=g)
    imgs = F.interpolate(base[labels], size=(24, 24), mode="bilinear", align_corners=False)
    return imgs + 0.5 * torch.randn(imgs.shape, generator=g), labels


def batches(cfg, images, labels, size):
    small = F.interpolate(images, size=(size, size), mode="area")
    order = torch.randperm(len(labels))
    for idx in order.split(cfg["batch_size"]):
        yield small[idx], labels[idx]


def train_epoch(epoch, cfg, model, opt, data, device, mixup_fn):
    size = cfg["sizes"][min(epoch, len(cfg["sizes"]) - 1)]
    soft_ce = SoftTargetCrossEntropy()
    hard_ce = nn.CrossEntropyLoss(label_smoothing=cfg["smoothing"])
    use_mixup = mixup_fn is not None and epoch < cfg["mixup_off_epoch"]
    model.train()
    for x, y in batches(cfg, *data, size):
        x, y = x.to(device), y.to(device)
        if use_mixup:
            x, target = mixup_fn(x, y)
            loss = soft_ce(model(x), target)
        else:
            loss = hard_ce(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
    return size, loss.item()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    device = xm.xla_device()
    model = TinyNet(cfg["num_classes"]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], weight_decay=cfg["wd"])
    mixup_fn = Mixup(
        mixup_alpha=cfg["mixup"],
        label_smoothing=cfg["smoothing"],
        num_classes=cfg["num_classes"],
    )
    data = fake_images(cfg)
    xm.mark_step()
    for epoch in range(cfg["epochs"]):
        size, last = train_epoch(epoch, cfg, model, opt, data, device, mixup_fn)
        print(f"[{epoch}] size={size} loss={last:.3f}")


if __name__ == "__main__":
    main(CFG)
