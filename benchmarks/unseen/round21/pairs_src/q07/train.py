import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Net(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 3, padding=1)
        self.c2 = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.fc = nn.Linear(8 * 16, classes)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.fc(x.flatten(1))


class Trainer:
    def __init__(self, device, log_every=3):
        self.device = device
        self.model = Net().to(device)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.log_every = log_every
        self.snapshots = []

    def train_step(self, step, x, y):
        self.optim.zero_grad()
        logits = self.model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.optim.step()
        if step % self.log_every == 0:
            self.snapshots.append((step, logits.detach()))
        return loss.detach()

    def fit(self, images, labels):
        for step, (x, y) in enumerate(zip(images, labels), 1):
            loss = self.train_step(step, x.to(self.device), y.to(self.device))
            xm.mark_step()
            print(step, round(loss.item(), 4))

    def report(self, labels):
        for step, logits in self.snapshots:
            conf = logits.cpu().softmax(1)
            acc = (conf.argmax(1) == labels[step - 1]).float().mean()
            print("step %d acc %.2f conf %.3f" % (step, acc, conf.max(1)[0].mean()))


def main():
    torch.manual_seed(5)
    images = torch.randn(7, 8, 1, 8, 8)
    labels = torch.randint(0, 5, (7, 8))
    trainer = Trainer(torch_xla.device())
    trainer.fit(images, labels)
    trainer.report(labels)


if __name__ == "__main__":
    main()
