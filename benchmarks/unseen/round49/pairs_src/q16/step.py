"""Fine-tuning a wearable-sensor (IMU) activity recogniser; the backbone thaws after two steps.

Dumps step 2 (first argument) and step 3 (second argument) of one and the same run.
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()
UNFREEZE_AT = 3
CLASSES = 5


class SeparableConv(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv1d(cin, cin, 5, stride=stride, padding=2, groups=cin)
        self.pw = nn.Conv1d(cin, cout, 1)
        self.norm = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.hardswish(self.norm(self.pw(self.dw(x))))


class ActivityNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.backbone = nn.Sequential(SeparableConv(6, 8, 2), SeparableConv(8, width, 2))
        self.score = nn.Conv1d(width, 1, 1)
        self.fc = nn.Linear(width, CLASSES)

    def forward(self, x):
        h = self.backbone(x)
        w = torch.softmax(self.score(h), dim=-1)
        return self.fc((h * w).sum(-1))


def set_backbone(model, trainable):
    for p in model.backbone.parameters():
        p.requires_grad_(trainable)


def train_step(model, opt, x, y):
    logits = model(x)
    loss = F.cross_entropy(logits, y, label_smoothing=0.05)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    acc = (logits.detach().argmax(1) == y).float().mean()
    return loss.detach(), acc


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        if p.grad is not None:
            out.append(p)
            out.append(p.grad)
            out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path_a, path_b):
    torch.manual_seed(21)
    model = ActivityNet().to(dev)
    set_backbone(model, False)
    opt = torch.optim.SGD(
        [
            {"params": model.backbone.parameters(), "lr": 1e-3},
            {"params": list(model.score.parameters()) + list(model.fc.parameters()), "lr": 1e-2},
        ],
        momentum=0.9,
        nesterov=True,
        weight_decay=1e-4,
    )
    dump = {2: path_a, 3: path_b}
    torch_xla.sync()
    for step in range(1, 5):
        if step == UNFREEZE_AT:
            set_backbone(model, True)
        x = torch.randn(4, 6, 40).to(dev)
        y = torch.randint(0, CLASSES, (4,)).to(dev)
        loss, acc = train_step(model, opt, x, y)
        if step in dump:
            with open(dump[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, acc)))
        torch_xla.sync()
        print(step, loss.item(), acc.item())


if __name__ == "__main__":
    main(*sys.argv[1:3])
