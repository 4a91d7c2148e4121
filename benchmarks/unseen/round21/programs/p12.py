"""Next-token model over long documents; a memory vector is carried from chunk to chunk."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 32
CHUNK = 8
DOCUMENTS = 30


class Corpus:
    """Documents of very different sizes, each filled up to whole chunks."""

    def __init__(self, n_docs, seed=21):
        rng = random.Random(seed)
        self.docs = []
        for _ in range(n_docs):
            length = rng.randint(CHUNK, 14 * CHUNK)
            token, doc = rng.randrange(1, VOCAB), []
            for _ in range(length):
                token = 1 + (token * 3 + rng.randint(0, 2)) % (VOCAB - 1)
                doc.append(token)
            self.docs.append(doc)

    def chunks(self, i):
        doc = self.docs[i]
        size = CHUNK + 1
        for start in range(0, len(doc) - 1, CHUNK):
            piece = doc[start : start + size]
            piece = piece + [0] * (size - len(piece))
            yield torch.tensor(piece).unsqueeze(0)

    def __len__(self):
        return len(self.docs)


class MemoryModel(nn.Module):
    """Predicts from the current token and a summary of the chunks before."""

    def __init__(self, dim=16):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(VOCAB, dim)
        self.update = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def initial_memory(self, device):
        return torch.zeros(1, self.dim, device=device)

    def forward(self, tokens, memory):
        x = self.embed(tokens)
        logits = self.out(torch.tanh(x + memory.unsqueeze(1)))
        summary = torch.cat([x.mean(dim=1), memory], dim=-1)
        return logits, torch.tanh(self.update(summary))


class Trainer:
    def __init__(self, corpus, lr=0.05):
        self.device = xm.xla_device()
        self.corpus = corpus
        self.model = MemoryModel().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def train_chunk(self, chunk, memory):
        chunk = chunk.to(self.device)
        self.optimizer.zero_grad()
        logits, memory = self.model(chunk[:, :-1], memory)
        loss = F.cross_entropy(logits.transpose(1, 2), chunk[:, 1:], ignore_index=0)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), memory.detach()

    def train_document(self, i):
        memory = self.model.initial_memory(self.device)
        for chunk in self.corpus.chunks(i):
            loss, memory = self.train_chunk(chunk, memory)
        xm.mark_step()
        return loss

    def fit(self):
        for i in range(len(self.corpus)):
            loss = self.train_document(i)
            if (i + 1) % 5 == 0:
                print(f"document {i + 1:3d}  last loss {loss.item():.4f}")


def main():
    torch.manual_seed(2)
    trainer = Trainer(Corpus(DOCUMENTS))
    trainer.fit()


if __name__ == "__main__":
    main()
