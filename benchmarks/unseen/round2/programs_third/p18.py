import random

import torch
import torch_xla
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch.utils.data import DataLoader
from transformers import DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = "the a cat dog tree house runs sleeps jumps sees red green small big and or near under".split()


def make_tokenizer():
    vocab = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>"] + WORDS)}
    core = Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def sentences(n, rng):
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 18))) for _ in range(n)]


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    tokenizer = make_tokenizer()
    features = [tokenizer(s) for s in sentences(40, rng)]
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    loader = DataLoader(features, batch_size=4, collate_fn=collator)
    config = GPT2Config(vocab_size=32, n_positions=32, n_embd=16, n_layer=1, n_head=2,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    device = torch_xla.device()
    model = GPT2LMHeadModel(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, batch in enumerate(loader):
        out = model(**{k: v.to(device) for k, v in batch.items()})
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        print(step, out.loss.item())


if __name__ == "__main__":
    main()
