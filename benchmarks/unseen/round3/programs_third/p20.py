import timm
import torch
import torch_xla
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset


def images(n=48):
    g = torch.Generator().manual_seed(1)
    return TensorDataset(torch.rand(n, 3, 16, 16, generator=g), torch.randint(0, 5, (n,), generator=g))


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = timm.create_model("vit_tiny_patch16_224", img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2,
                              num_classes=5, drop_path_rate=0.1, proj_drop_rate=0.1, pretrained=False).to(device)
    ema = ModelEmaV2(model, decay=0.99)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05)
    scheduler = CosineLRScheduler(optimizer, t_initial=16, warmup_t=4, warmup_lr_init=1e-5, t_in_epochs=False)
    criterion = LabelSmoothingCrossEntropy(0.1)
    loader = DataLoader(images(), batch_size=4, shuffle=True, drop_last=True)
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        scheduler.step_update(step)
        torch_xla.sync()
        if step % 4 == 3:
            print(step, loss.item(), optimizer.param_groups[0]["lr"])


if __name__ == "__main__":
    main()
