"""Character language model from scratch: a tiny Llama (transformers) trained with
accelerate, a sequence-length warmup and gradient accumulation."""
import math

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

SUBJECTS = ["the miller", "a grey cat", "my aunt", "the old river", "a traveller", "the clock"]
VERBS = ["watches", "follows", "forgets", "carries", "counts", "hides from"]
OBJECTS = ["the moon", "seven stones", "a letter", "the last train", "her shadow", "some bread"]
ENDINGS = [". ", ", again. ", " at night. ", " without a word. ", "! "]

STAGES = [(16, 12), (32, 16), (48, 28)]
ACCUM = 2
BATCH = 8
EVAL_EVERY = 14


def write_corpus(n_sentences, seed):
    rng = np.random.default_rng(seed)
    pick = lambda xs: xs[rng.integers(len(xs))]
    return "".join(f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)}{pick(ENDINGS)}"
                   for _ in range(n_sentences))


class CharTokenizer:
    def __init__(self, text):
        self.chars = ["<s>"] + sorted(set(text))
        self.index = {c: i for i, c in enumerate(self.chars)}

    def __len__(self):
        return len(self.chars)

    def encode(self, text):
        return torch.tensor([self.index[c] for c in text], dtype=torch.long)


class Blocks(Dataset):
    """Random windows of a fixed length out of one long string of ids."""

    def __init__(self, ids, length, n, seed):
        rng = np.random.default_rng(seed)
        self.ids, self.length = ids, length
        self.starts = rng.integers(0, len(ids) - length, n)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = int(self.starts[i])
        return {"input_ids": self.ids[s:s + self.length]}


def tiny_llama(vocab):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=0, use_cache=False, tie_word_embeddings=True,
        attn_implementation="eager"))


@torch.no_grad()
def perplexity(model, loader):
    model.eval()
    losses = []
    for batch in loader:
        losses.append(model(**batch, labels=batch["input_ids"]).loss)
    model.train()
    return math.exp(min(20.0, torch.stack(losses).mean().item()))


def main():
    set_seed(21)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
    text = write_corpus(400, 21)
    tok = CharTokenizer(text)
    ids = tok.encode(text)
    cut = int(0.9 * len(ids))

    model = tiny_llama(len(tok))
    opt = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1)
    total = sum(n for _, n in STAGES)
    sched = get_cosine_schedule_with_warmup(opt, 4, total // ACCUM)
    model, opt, sched = accelerator.prepare(model, opt, sched)
    model.train()

    valid = accelerator.prepare(
        DataLoader(Blocks(ids[cut:], STAGES[-1][0], 2 * BATCH, 0), BATCH, drop_last=True))

    step = 0
    for length, n_steps in STAGES:
        train = accelerator.prepare(DataLoader(
            Blocks(ids[:cut], length, n_steps * BATCH, length), BATCH, shuffle=True,
            drop_last=True))
        accelerator.print(f"-- sequence length {length}, {n_steps} micro-batches")
        for batch in train:
            step += 1
            with accelerator.accumulate(model):
                loss = model(**batch, labels=batch["input_ids"]).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            if step % EVAL_EVERY == 0:
                ppl = perplexity(model, valid)
                accelerator.print(f"micro {step:3d} loss {loss.item():.3f} "
                                  f"lr {sched.get_last_lr()[0]:.2e} valid ppl {ppl:.2f}")


if __name__ == "__main__":
    main()
