import torch
import torch.nn as nn
import torch_xla


class ActivationMonitor:
    """Records mean and std of the outputs of chosen layers."""

    def __init__(self, model, kinds=(nn.Linear,), every=5):
        self.every, self.step, self.rows = every, 0, []
        for name, m in model.named_modules():
            if isinstance(m, kinds):
                m.register_forward_hook(self.hook(name))

    def hook(self, name):
        def record(module, inputs, output):
            if self.step % self.every == self.every - 1:
                o = output.detach()
                self.rows.append((self.step, name, o.mean().item(), o.std().item()))
        return record

    def tick(self):
        self.step += 1


def autoencoder(d=24):
    return nn.Sequential(nn.Linear(d, 12), nn.ReLU(), nn.Linear(12, 4), nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, d))


def main():
    torch.manual_seed(2)
    dev = torch_xla.device()
    net = autoencoder().to(dev)
    monitor = ActivationMonitor(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    basis = torch.randn(3, 24)
    for _ in range(12):
        x = (torch.randn(8, 3) @ basis).to(dev)
        loss = (net(x) - x).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        monitor.tick()
    for row in monitor.rows:
        print("step %d layer %s mean %.3f std %.3f" % row)


main()
