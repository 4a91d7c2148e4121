"""Tiny BERT on random token ids; 4 micro-batches per optimizer step."""
import argparse

import torch
import torch_xla
from transformers import BertConfig, BertForSequenceClassification

p = argparse.ArgumentParser()
p.add_argument("--accum", type=int, default=4)
p.add_argument("--keep-grads", action="store_true")
args = p.parse_args()

torch.manual_seed(0)
device = torch_xla.device()
cfg = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=64, max_position_embeddings=32, hidden_dropout_prob=0.0,
                 attention_probs_dropout_prob=0.0, num_labels=3)
model = BertForSequenceClassification(cfg).to(device).train()
optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
if args.keep_grads:
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
torch_xla.sync()


def micro_batch():
    ids = torch.randint(0, 120, (4, 16))
    labels = torch.randint(0, 3, (4,))
    return ids.to(device), torch.ones(4, 16, dtype=torch.long).to(device), labels.to(device)


for update in range(2):
    for k in range(args.accum):
        ids, mask, labels = micro_batch()
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        (loss / args.accum).backward()
        torch_xla.sync()
    optimizer.step()
    optimizer.zero_grad(set_to_none=not args.keep_grads)
    torch_xla.sync()
    print(update, loss.item())
