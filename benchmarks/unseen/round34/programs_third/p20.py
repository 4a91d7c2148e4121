"""LoRA on a small BERT bi-encoder for passage retrieval, with accelerate and gradient accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertModel, get_cosine_schedule_with_warmup

VOCAB = 200
Q_LEN, P_LEN = 12, 32
BATCH = 8
ACCUM = 2
EPOCHS = 3


class Pairs(Dataset):
    """A query is a noisy subset of its passage. Token 0 is padding, 1 is [CLS]."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            n_p = int(torch.randint(16, P_LEN, (1,), generator=g))
            n_q = int(torch.randint(4, Q_LEN, (1,), generator=g))
            passage = torch.randint(2, VOCAB, (n_p,), generator=g)
            query = passage[torch.randperm(n_p, generator=g)[:n_q]]
            self.rows.append((query, passage))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def pad(rows, length):
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    for r, toks in enumerate(rows):
        toks = toks[:length - 1]
        ids[r, 0] = 1
        ids[r, 1:1 + len(toks)] = toks
    return ids


def collate(rows):
    return {"query": pad([q for q, _ in rows], Q_LEN), "passage": pad([p for _, p in rows], P_LEN)}


class BiEncoder(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.log_temp = nn.Parameter(torch.tensor(2.5))

    def encode(self, ids):
        mask = (ids != 0).long()
        h = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).to(h.dtype)
        return F.normalize((h * m).sum(1) / m.sum(1), dim=-1)

    def forward(self, query, passage):
        q, p = self.encode(query), self.encode(passage)
        scores = q @ p.t() * self.log_temp.exp()
        labels = torch.arange(scores.size(0), device=scores.device)
        loss = 0.5 * (F.cross_entropy(scores, labels) + F.cross_entropy(scores.t(), labels))
        return loss, scores


def build():
    backbone = BertModel(BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    ), add_pooling_layer=False)
    lora = LoraConfig(r=4, lora_alpha=16, lora_dropout=0.05, target_modules=["query", "value"], bias="none")
    return BiEncoder(get_peft_model(backbone, lora))


@torch.no_grad()
def recall_at_1(model, loader, device):
    model.eval()
    hits, total = torch.zeros((), device=device), 0
    for batch in loader:
        _, scores = model(**batch)
        gold = torch.arange(scores.size(0), device=device)
        hits += (scores.argmax(1) == gold).sum()
        total += scores.size(0)
    torch_xla.sync()
    model.train()
    return hits.item() / total


def main():
    set_seed(13)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
    train = DataLoader(Pairs(128, 0), batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=collate)
    valid = DataLoader(Pairs(48, 1), batch_size=BATCH, collate_fn=collate)
    model = build()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=5e-3)
    total = EPOCHS * len(train) // ACCUM
    sched = get_cosine_schedule_with_warmup(opt, 4, total)
    model, opt, train, valid, sched = accelerator.prepare(model, opt, train, valid, sched)
    accelerator.print(f"trainable parameters: {sum(p.numel() for p in params)}")

    model.train()
    for epoch in range(EPOCHS):
        running = torch.zeros((), device=accelerator.device)
        for batch in train:
            with accelerator.accumulate(model):
                loss, _ = model(**batch)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(params, 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            running += loss.detach()
        mean = running.item() / len(train)
        recall = recall_at_1(model, valid, accelerator.device)
        accelerator.print(f"epoch {epoch}  loss {mean:.4f}  recall@1 {recall:.3f}")


if __name__ == "__main__":
    main()
