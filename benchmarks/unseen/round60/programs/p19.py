"""Title generation with a tiny T5: length-grouped batches, padded to multiples, Adafactor."""
import random

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import (Adafactor, DataCollatorForSeq2Seq, PreTrainedTokenizerFast, T5Config,
                          T5ForConditionalGeneration)

TOPICS = ["harbour", "orchard", "railway", "glacier", "market", "library"]
FILLERS = [f"w{i}" for i in range(60)]


def make_tokenizer():
    vocab = {tok: i for i, tok in enumerate(["<pad>", "</s>", "<unk>", "about", "and"] + TOPICS + FILLERS)}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


class Articles(Dataset):
    """The title names the two most frequent topics of the text, in that order."""

    def __init__(self, tokenizer, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            first, second = rng.sample(TOPICS, 2)
            length = rng.choice([rng.randint(8, 15), rng.randint(17, 31), rng.randint(33, 47)])
            words = [rng.choice(FILLERS) for _ in range(length)]
            for i in rng.sample(range(length), 5):
                words[i] = first
            for i in rng.sample([i for i in range(length) if words[i] != first], 2):
                words[i] = second
            source = tokenizer(" ".join(words) + " </s>", add_special_tokens=False)["input_ids"]
            title = tokenizer(f"about {first} and {second} </s>", add_special_tokens=False)["input_ids"]
            self.rows.append({"input_ids": source, "attention_mask": [1] * len(source), "labels": title})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class GroupedBatches(Sampler):
    """Batches of similar length, in random order; leftovers of a group are dropped."""

    def __init__(self, dataset, batch_size, multiple, seed):
        self.batch_size = batch_size
        self.rng = random.Random(seed)
        self.groups = {}
        for i, row in enumerate(dataset.rows):
            self.groups.setdefault(-(-len(row["input_ids"]) // multiple), []).append(i)

    def __iter__(self):
        batches = []
        for members in self.groups.values():
            members = self.rng.sample(members, len(members))
            for at in range(0, len(members) - self.batch_size + 1, self.batch_size):
                batches.append(members[at: at + self.batch_size])
        self.rng.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(len(m) // self.batch_size for m in self.groups.values())


@torch.no_grad()
def exact_match(model, loader, device):
    model.eval()
    hits, total = [], 0
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        labels = batch["labels"]
        pred = model(**batch).logits.argmax(-1)
        hits.append(((pred == labels) | (labels == -100)).all(1).sum())
        total += labels.shape[0]
        torch_xla.sync()
    model.train()
    return sum(h.item() for h in hits) / total


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    torch_xla.manual_seed(2)
    tokenizer = make_tokenizer()
    config = T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=16, d_ff=48, num_layers=1, num_decoder_layers=1, num_heads=2,
        relative_attention_num_buckets=8, relative_attention_max_distance=32, dropout_rate=0.05,
        feed_forward_proj="gated-gelu", pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id, use_cache=False,
    )
    model = T5ForConditionalGeneration(config).to(device)
    model.train()
    collate = DataCollatorForSeq2Seq(tokenizer, model=model, padding="longest", pad_to_multiple_of=16)
    train_set, valid_set = Articles(tokenizer, 150, seed=4), Articles(tokenizer, 40, seed=5)
    train = DataLoader(train_set, batch_sampler=GroupedBatches(train_set, 8, 16, seed=9), collate_fn=collate)
    valid = DataLoader(valid_set, batch_sampler=GroupedBatches(valid_set, 8, 16, seed=9), collate_fn=collate)
    opt = Adafactor(model.parameters(), lr=2e-2, scale_parameter=False, relative_step=False, warmup_init=False)
    torch_xla.sync()

    step = 0
    for epoch in range(3):
        losses = []
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
            step += 1
            losses.append(loss.detach())
        mean = sum(v.item() for v in losses) / len(losses)
        match = exact_match(model, valid, device)
        xm.master_print(f"epoch {epoch}  step {step}  loss {mean:.3f}  exact match {match:.2f}")


if __name__ == "__main__":
    main()
