import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.n1 = nn.GroupNorm(2, cout)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.n2 = nn.GroupNorm(2, cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.n1(self.c1(x)))
        return F.relu(self.n2(self.c2(y)) + self.short(x))


class Net(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), ResBlock(8, 8, 1), ResBlock(8, 16, 2))
        self.neck = nn.Linear(16, 32)
        self.head = nn.Linear(32, num_classes)

    def forward(self, x):
        f = self.backbone(x).mean((2, 3))
        return self.head(F.relu(self.neck(f)))


class Callback:
    def on_epoch_begin(self, trainer):
        pass

    def on_step_end(self, trainer):
        pass


class BackboneFinetuning(Callback):
    def __init__(self, unfreeze_at_epoch):
        self.at = unfreeze_at_epoch

    def on_epoch_begin(self, trainer):
        for p in trainer.model.backbone.parameters():
            p.requires_grad = trainer.epoch >= self.at


class PrintLoss(Callback):
    def on_step_end(self, trainer):
        if trainer.global_step % 5 == 0:
            print("step", trainer.global_step, "loss %.4f" % trainer.last_loss.item())


class Trainer:
    def __init__(self, model, callbacks):
        self.device = torch_xla.device()
        self.model = model.to(self.device)
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.callbacks = callbacks
        self.global_step = 0

    def fire(self, name):
        for cb in self.callbacks:
            getattr(cb, name)(self)

    def fit(self, make_loader, epochs):
        for self.epoch in range(epochs):
            self.fire("on_epoch_begin")
            for x, y in make_loader():
                x, y = x.to(self.device), y.to(self.device)
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                torch_xla.sync()
                self.last_loss = loss
                self.fire("on_step_end")
                self.global_step += 1


def loader():
    for _ in range(4):
        yield torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,))


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Net(), [BackboneFinetuning(1), PrintLoss()]).fit(loader, 3)
