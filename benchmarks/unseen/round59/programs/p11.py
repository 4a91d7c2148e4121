"""Semi-supervised segmentation on a small ViT: supervised loss + CutMix consistency on its own pseudo labels."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from timm.data.mixup import cutmix_bbox_and_lam
from timm.models.vision_transformer import VisionTransformer
from timm.scheduler import CosineLRScheduler

IMG, PATCH, CLASSES = 32, 4, 4
BATCH, STEPS = 6, 16


def synth_scene(rng, n):
    """Discs, bars and boxes on textured ground; returns images in [-1, 1] and integer masks."""
    yy, xx = np.mgrid[0:IMG, 0:IMG]
    imgs = rng.normal(0.0, 0.25, (n, 3, IMG, IMG)).astype(np.float32)
    masks = np.zeros((n, IMG, IMG), dtype=np.int64)
    for i in range(n):
        for cls in (1, 2, 3):
            if rng.random() < 0.3:
                continue
            cy, cx, r = rng.uniform(6, IMG - 6), rng.uniform(6, IMG - 6), rng.uniform(3, 8)
            if cls == 1:
                m = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            elif cls == 2:
                m = (np.abs(yy - cy) < 2) & (np.abs(xx - cx) < 1.5 * r)
            else:
                m = (np.abs(yy - cy) < r) & (np.abs(xx - cx) < r * 0.8)
            masks[i][m] = cls
            imgs[i, cls - 1][m] += 1.0
    return torch.from_numpy(imgs).clamp_(-1, 1), torch.from_numpy(masks)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = VisionTransformer(
            img_size=IMG, patch_size=PATCH, embed_dim=24, depth=1, num_heads=2,
            num_classes=0, global_pool="", class_token=True, mlp_ratio=2.0,
        )
        self.grid = IMG // PATCH
        self.head = nn.Sequential(
            nn.Conv2d(24, 24, 1), nn.GELU(),
            nn.Conv2d(24, CLASSES * PATCH * PATCH, 1), nn.PixelShuffle(PATCH),
        )

    def forward(self, x):
        tok = self.encoder.forward_features(x)[:, self.encoder.num_prefix_tokens:]
        fmap = tok.transpose(1, 2).reshape(x.shape[0], -1, self.grid, self.grid)
        return self.head(fmap)


@torch.no_grad()
def pseudo_label(model, images):
    prob = F.softmax(model(images), dim=1)
    conf, label = prob.max(dim=1)
    return label, conf


def mix_pairs(images, labels, conf, alpha):
    """Paste a box of the reversed batch into the batch, labels and confidences alike."""
    lam = np.random.beta(alpha, alpha)
    (yl, yh, xl, xh), lam = cutmix_bbox_and_lam(images.shape, lam, correct_lam=True)
    mixed, mixed_y, mixed_c = images.clone(), labels.clone(), conf.clone()
    mixed[:, :, yl:yh, xl:xh] = images.flip(0)[:, :, yl:yh, xl:xh]
    mixed_y[:, yl:yh, xl:xh] = labels.flip(0)[:, yl:yh, xl:xh]
    mixed_c[:, yl:yh, xl:xh] = conf.flip(0)[:, yl:yh, xl:xh]
    return mixed, mixed_y, mixed_c


def consistency_weight(step, ramp=12, peak=1.5):
    t = min(1.0, step / ramp)
    return peak * math.exp(-5.0 * (1.0 - t) ** 2)


def main():
    torch.manual_seed(11)
    np.random.seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    torch_xla.manual_seed(11)

    labelled = synth_scene(rng, 64)
    unlabelled, _ = synth_scene(rng, 256)

    model = Segmenter().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = CosineLRScheduler(opt, t_initial=STEPS, lr_min=1e-4, warmup_t=3, warmup_lr_init=5e-3)
    class_w = torch.tensor([0.4, 1.0, 1.2, 1.0], device=device)
    torch_xla.sync()

    model.train()
    history = []
    for step in range(STEPS):
        li = rng.choice(64, BATCH, replace=False)
        ui = rng.choice(256, BATCH, replace=False)
        xl_, yl_ = labelled[0][li].to(device), labelled[1][li].to(device)
        xu = unlabelled[ui].to(device)

        pl, conf = pseudo_label(model, xu)
        xm_, ym_, cm_ = mix_pairs(xu, pl, conf, alpha=1.0)

        logits_l, logits_u = model(torch.cat([xl_, xm_])).chunk(2)
        sup = F.cross_entropy(logits_l, yl_, weight=class_w)
        pix = F.cross_entropy(logits_u, ym_, reduction="none")
        gate = (cm_ > 0.6).float()
        cons = (pix * gate).sum() / gate.sum().clamp(min=1.0)
        loss = sup + consistency_weight(step) * cons

        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step(step + 1)
        torch_xla.sync()
        history.append(sup.detach())

        if (step + 1) % 8 == 0:
            mean = np.mean([h.item() for h in history])
            history.clear()
            print(f"step {step + 1:3d}  sup {mean:.4f}  lr {opt.param_groups[0]['lr']:.5f}")


if __name__ == "__main__":
    main()
