import torch
import torch.nn as nn
import torch_xla as xla


class Tagger(nn.Module):
    """BiLSTM-free tagger: conv encoder with residual blocks."""

    def __init__(self, vocab=500, dim=40, tags=9, p=0.0):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.c1 = nn.Conv1d(dim, dim, 3, padding=1)
        self.c2 = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        x = x + torch.relu(self.c1(x))
        x = x + torch.relu(self.c2(x))
        return self.head(self.drop(self.norm(x.transpose(1, 2))))


def dropout_rate(epoch):
    # curriculum dropout: none in the first epoch
    return (0.0, 0.1, 0.2)[min(epoch, 2)]


device = xla.device()
torch.manual_seed(11)
model = Tagger().to(device)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, capturable=True)
crit = nn.CrossEntropyLoss(ignore_index=-100)
for epoch in range(3):
    model.drop.p = dropout_rate(epoch)
    for _ in range(3):
        ids = torch.randint(1, 500, (8, 24))
        y = ids % 9
        y[:, -3:] = -100
        opt.zero_grad()
        out = model(ids.to(device))
        loss = crit(out.flatten(0, 1), y.to(device).flatten())
        loss.backward()
        opt.step()
        xla.sync()
