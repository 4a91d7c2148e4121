import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, LEN = 20, 6


class Seq2Seq(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.encoder = nn.GRU(d, d, batch_first=True)
        self.cell = nn.GRUCell(d, d)
        self.out = nn.Linear(d, VOCAB)

    def forward(self, src, tgt, teacher_forcing):
        _, h = self.encoder(self.emb(src))
        h = h[0]
        token = torch.zeros_like(tgt[:, 0])
        logits = []
        for t in range(LEN):
            h = self.cell(self.emb(token), h)
            step = self.out(h)
            logits.append(step)
            token = tgt[:, t] if random.random() < teacher_forcing else step.argmax(-1)
        return torch.stack(logits, 1)


def schedule(epoch, epochs):
    return 1.0 - 0.7 * epoch / epochs


if __name__ == "__main__":
    random.seed(8)
    torch.manual_seed(8)
    device = torch_xla.device()
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(10):
        src = torch.randint(1, VOCAB, (8, LEN)).to(device)
        tgt = src.flip(1)
        logits = model(src, tgt, schedule(epoch, 10))
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        opt.step()
        torch_xla.sync()
        print(epoch, loss.item())
