import torch
import torch_xla


class Callback:
    def before_step(self, trainer):
        pass

    def after_update(self, trainer):
        pass

    def after_step(self, trainer):
        pass


class PrintLoss(Callback):
    def __init__(self, every):
        self.every = every

    def after_step(self, trainer):
        if trainer.step % self.every == 0:
            print(f"step {trainer.step:3d}  loss {trainer.loss.item():.5f}")


class Trainer:
    def __init__(self, model, loss_fn, lr, callbacks=()):
        self.device = torch_xla.device()
        self.model = model.to(self.device)
        self.loss_fn = loss_fn
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.callbacks = list(callbacks)
        self.step, self.loss = 0, None

    def call(self, event):
        for cb in self.callbacks:
            getattr(cb, event)(self)

    def fit(self, data, steps):
        for x, y in data:
            self.call("before_step")
            self.loss = self.loss_fn(self.model(x.to(self.device)), y.to(self.device))
            self.opt.zero_grad()
            self.loss.backward()
            self.opt.step()
            self.call("after_update")
            torch_xla.sync()
            self.call("after_step")
            self.step += 1
            if self.step >= steps:
                return
