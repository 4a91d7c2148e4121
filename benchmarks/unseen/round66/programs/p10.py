"""Causal language model on a character-level arithmetic corpus: GPT-2 body, low-rank adapters on a frozen base,
gradient accumulation and a short-to-long sequence-length curriculum."""
import math

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup, set_seed

CHARS = "0123456789+-*= \n"
TO_ID = {c: i for i, c in enumerate(CHARS)}
ACCUMULATE = 4
CURRICULUM = ((0, 24), (3, 32), (6, 48))
UPDATES = 15
BATCH = 8


def write_corpus(num_lines, generator):
    lines = []
    for _ in range(num_lines):
        a, b, op = (int(torch.randint(0, n, (1,), generator=generator)) for n in (50, 50, 3))
        value = (a + b, a - b, a * b)[op]
        lines.append(f"{a}{'+-*'[op]}{b}={value}")
    text = "\n".join(lines)
    return torch.tensor([TO_ID[c] for c in text], dtype=torch.long)


def sequence_length(update):
    return [length for start, length in CURRICULUM if update >= start][-1]


class Corpus:
    def __init__(self, tokens, held_out=0.1):
        cut = int(len(tokens) * (1 - held_out))
        self.train, self.valid = tokens[:cut], tokens[cut:]

    def draw(self, batch, length, generator):
        start = torch.randint(0, len(self.train) - length, (batch,), generator=generator)
        return torch.stack([self.train[s:s + length] for s in start.tolist()])

    def validation_batches(self, batch, length):
        rows = len(self.valid) // length
        grid = self.valid[: rows * length].view(rows, length)
        return grid.split(batch)


def build_model():
    config = GPT2Config(vocab_size=len(CHARS), n_positions=64, n_embd=32, n_layer=1, n_head=2, n_inner=64,
                        bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    base = GPT2LMHeadModel(config)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["c_attn", "c_fc"],
                      modules_to_save=["wte"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    return get_peft_model(base, lora)


@torch.no_grad()
def evaluate(model, corpus, device):
    model.eval()
    total, count = torch.zeros((), device=device), 0
    for rows in corpus.validation_batches(BATCH, CURRICULUM[-1][1]):
        ids = rows.to(device)
        total += model(input_ids=ids, labels=ids, use_cache=False).loss * ids.size(0)
        count += rows.size(0)
        torch_xla.sync()
    model.train()
    return total.item() / count


def main():
    set_seed(41)
    generator = torch.Generator().manual_seed(41)
    device = torch_xla.device()
    corpus = Corpus(write_corpus(900, generator))
    model = build_model().to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=5e-3, weight_decay=0.0)
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=UPDATES)
    model.train()

    for update in range(UPDATES):
        length = sequence_length(update)
        window_loss = torch.zeros((), device=device)
        for micro in range(ACCUMULATE):
            ids = corpus.draw(BATCH, length, generator).to(device)
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss / ACCUMULATE
            loss.backward()
            window_loss += loss.detach()
            if micro == ACCUMULATE - 1:
                torch.nn.utils.clip_grad_norm_(trainable, 1.0, foreach=False)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
            torch_xla.sync()
        if (update + 1) % 5 == 0:
            ppl = math.exp(evaluate(model, corpus, device))
            print(f"update {update + 1:2d}  length {length}  loss {window_loss.item():.4f}  valid ppl {ppl:.2f}")


if __name__ == "__main__":
    main()
