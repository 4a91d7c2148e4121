"""Histology patches: reconstruct first, then train a tumour head, then tune everything."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIZE = 12
BATCH = 6


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.b = nn.Conv2d(8, 12, 3, stride=2, padding=1)

    def forward(self, x):
        return torch.relu(self.b(torch.relu(self.a(x))))


def patches(gen):
    x = torch.rand(BATCH, 3, SIZE, SIZE, generator=gen)
    y = torch.randint(0, 2, (BATCH,), generator=gen)
    x[:, 2] = x[:, 2] * 0.5 + 0.5 * y.view(-1, 1, 1)
    return x, y


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def pretrain(encoder, decoder, gen, device, steps):
    opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    for _ in range(steps):
        x = patches(gen)[0].to(device)
        opt.zero_grad()
        loss = F.mse_loss(decoder(encoder(x).flatten(1)), F.avg_pool2d(x, 4).flatten(1))
        loss.backward()
        opt.step()
        torch_xla.sync()
    print("reconstruction", round(loss.item(), 4))


def accuracy(encoder, head, gen, device):
    with torch.no_grad():
        x, y = patches(gen)
        guess = head(encoder(x.to(device)).mean(dim=(2, 3))).argmax(dim=1)
        return (guess.cpu() == y).float().mean().item()


def classify(encoder, head, gen, device, steps, lr):
    params = [p for m in (encoder, head) for p in m.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=lr, momentum=0.9)
    for step in range(steps):
        x, y = patches(gen)
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(head(encoder(x).mean(dim=(2, 3))), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 4:
            print(f"  {step + 1} accuracy {accuracy(encoder, head, gen, device):.2f}")


def main():
    torch.manual_seed(6)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()
    encoder = Encoder().to(device)
    decoder = nn.Linear(12 * 9, 3 * 9).to(device)
    head = nn.Linear(12, 2).to(device)
    pretrain(encoder, decoder, gen, device, steps=14)
    set_trainable(encoder, False)
    classify(encoder, head, gen, device, steps=15, lr=0.1)
    set_trainable(encoder, True)
    classify(encoder, head, gen, device, steps=15, lr=0.02)


if __name__ == "__main__":
    main()
