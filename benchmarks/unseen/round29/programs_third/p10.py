"""Fine-tune a small multilingual seq2seq model on a toy transliteration task with accelerate."""
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import M2M100Config, M2M100ForConditionalGeneration

SRC_LEN, TGT_LEN = 12, 14
PAD, BOS, EOS, OFFSET = 1, 0, 2, 4
ALPHABET = 40


class Transliteration(Dataset):
    """Source symbols map one to one, every third symbol is doubled in the target."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        table = rng.permutation(ALPHABET)
        self.rows = []
        for _ in range(n):
            src = rng.integers(0, ALPHABET, rng.integers(4, 9))
            tgt = []
            for i, s in enumerate(src):
                tgt += [table[s]] * (2 if i % 3 == 2 else 1)
            self.rows.append((src + OFFSET, np.array(tgt) + OFFSET))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    n = len(rows)
    src = np.full((n, SRC_LEN), PAD, np.int64)
    labels = np.full((n, TGT_LEN), -100, np.int64)
    for i, (s, t) in enumerate(rows):
        src[i, :len(s) + 1] = np.append(s, EOS)
        labels[i, :len(t) + 1] = np.append(t, EOS)
    dec = np.full((n, TGT_LEN), PAD, np.int64)
    dec[:, 0] = EOS
    dec[:, 1:] = np.where(labels[:, :-1] == -100, PAD, labels[:, :-1])
    return {
        "input_ids": torch.from_numpy(src),
        "attention_mask": torch.from_numpy((src != PAD).astype(np.int64)),
        "decoder_input_ids": torch.from_numpy(dec),
        "labels": torch.from_numpy(labels),
    }


def build_model():
    config = M2M100Config(
        vocab_size=ALPHABET + OFFSET,
        d_model=24,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=32,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        dropout=0.1,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.2,
        attn_implementation="eager",
        use_cache=False,
    )
    return M2M100ForConditionalGeneration(config)


def main(epochs=4, batch_size=8, lr=0.1):
    set_seed(13)
    accelerator = Accelerator(mixed_precision="no")
    model = build_model()
    loader = DataLoader(Transliteration(88, 0), batch_size=batch_size, shuffle=True, drop_last=True,
                        collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    model.train()
    for epoch in range(epochs):
        total = torch.zeros((), device=accelerator.device)
        for batch in loader:
            outputs = model(**batch)
            accelerator.backward(outputs.loss)
            optimizer.step()
            optimizer.zero_grad()
            total += outputs.loss.detach()
        accelerator.print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
