"""Product-image embeddings with Proxy-Anchor loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class EmbedNet(nn.Module):
    def __init__(self, n_classes, dim=12, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(2 * width)
        self.fc = nn.Linear(2 * width, dim)
        self.proxies = nn.Parameter(torch.randn(n_classes, dim) * 0.3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        avg = x.mean((2, 3))
        top = x.amax((2, 3))
        return self.fc(self.norm(avg + top))


def proxy_anchor(emb, proxies, labels, margin=0.1, alpha=16.0):
    n_classes = proxies.shape[0]
    emb = F.normalize(emb, p=2, dim=1)
    prox = F.normalize(proxies, p=2, dim=1)
    cos = F.linear(emb, prox)
    pos = F.one_hot(labels, n_classes).float()
    neg = 1.0 - pos
    pos_exp = torch.exp(-alpha * (cos - margin))
    neg_exp = torch.exp(alpha * (cos + margin))
    with_pos = (pos.sum(0) != 0).float()
    p_sum = (pos * pos_exp).sum(0)
    n_sum = (neg * neg_exp).sum(0)
    pos_term = torch.log(1 + p_sum).sum() / with_pos.sum()
    neg_term = torch.log(1 + n_sum).sum() / n_classes
    return pos_term + neg_term


def images(n, batch_size, n_classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield (torch.randn(batch_size, 3, 16, 16, generator=g),
               torch.randint(0, n_classes, (batch_size,), generator=g))


def main(steps=5, n_classes=7):
    torch.manual_seed(0)
    device = torch_xla.device()
    net = EmbedNet(n_classes).to(device)
    body = [p for n, p in net.named_parameters() if n != "proxies"]
    opt = torch.optim.AdamW([{"params": body, "lr": 1e-3}, {"params": [net.proxies], "lr": 1e-2}],
                            weight_decay=1e-4)
    torch_xla.sync()
    for x, y in images(steps, 8, n_classes):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = proxy_anchor(net(x), net.proxies, y)
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    main()
