"""Fine-tune a part-segmentation head on a frozen, pretrained PointNet-like encoder (LiDAR scans of trees)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PARTS, POINTS, BATCH = 3, 10, 4


class PointEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, 8, 1, bias=False), nn.BatchNorm1d(8)
        self.conv2, self.bn2 = nn.Conv1d(8, 12, 1, bias=False), nn.BatchNorm1d(12)

    def forward(self, xyz):
        local = F.relu(self.bn1(self.conv1(xyz)))
        h = F.relu(self.bn2(self.conv2(local)))
        glob = h.max(dim=2, keepdim=True).values
        return torch.cat([local, glob.expand(-1, -1, xyz.shape[2])], dim=1)


class PartHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(20, 12, 1, bias=False), nn.BatchNorm1d(12)
        self.conv2 = nn.Conv1d(12, PARTS, 1)

    def forward(self, feat):
        return self.conv2(F.leaky_relu(self.bn1(self.conv1(feat)), 0.1))


class PartSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = PointEncoder()
        self.head = PartHead()

    def forward(self, xyz):
        return self.head(self.encoder(xyz))


def focal_loss(logits, target, gamma=2.0):
    logp = F.log_softmax(logits, dim=1)
    logp_t = logp.gather(1, target.unsqueeze(1)).squeeze(1)
    return (-(1.0 - logp_t.exp()).pow(gamma) * logp_t).mean()


def lovasz_like_iou(logits, target):
    prob = F.softmax(logits, dim=1)
    hot = F.one_hot(target, PARTS).permute(0, 2, 1).float()
    inter = (prob * hot).sum(dim=2)
    union = (prob + hot - prob * hot).sum(dim=2)
    return 1.0 - (inter / union.clamp_min(1e-6)).mean()


def set_train_mode(model):
    model.train()
    model.encoder.eval()


def main():
    torch.manual_seed(21)
    dev = torch_xla.device()
    model = PartSeg()
    for m in model.encoder.modules():
        if isinstance(m, nn.BatchNorm1d):  # stands for the pretrained statistics
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    model = model.to(dev)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.RAdam(params, lr=2e-3, weight_decay=1e-3, decoupled_weight_decay=True, foreach=False)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)

    for it in range(8):
        set_train_mode(model)
        xyz = torch.randn(BATCH, 3, POINTS).to(dev)
        target = torch.randint(0, PARTS, (BATCH, POINTS)).to(dev)

        logits = model(xyz)
        loss = focal_loss(logits, target) + 0.5 * lovasz_like_iou(logits, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()

        if it == 6:
            live = [loss] + params + [b for b in model.buffers()]
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


main()
