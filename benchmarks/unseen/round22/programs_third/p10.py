"""Fine-tunes a small BART on a synthetic 'reverse the sentence' task with Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

PAD, BOS, EOS = 1, 0, 2


class ReverseDataset(Dataset):
    def __init__(self, n, vocab_size, max_len, seed):
        gen = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(4, max_len - 2, (n,), generator=gen)
        self.tokens = torch.randint(3, vocab_size, (n, max_len), generator=gen)
        self.max_len = max_len

    def __len__(self):
        return len(self.lengths)

    def _pack(self, body):
        ids = torch.full((self.max_len,), PAD)
        ids[0] = BOS
        ids[1:1 + len(body)] = body
        ids[1 + len(body)] = EOS
        return ids

    def __getitem__(self, i):
        body = self.tokens[i, :self.lengths[i]]
        src, tgt = self._pack(body), self._pack(body.flip(0))
        return {
            "input_ids": src,
            "attention_mask": (src != PAD).long(),
            "labels": tgt.masked_fill(tgt == PAD, -100),
        }


def build_model(args):
    config = BartConfig(
        vocab_size=args.vocab_size,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        dropout=0.1,
        attention_dropout=0.0,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.2,
        use_cache=False,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
    )
    return BartForConditionalGeneration(config)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab_size", type=int, default=48)
    parser.add_argument("--max_len", type=int, default=12)
    parser.add_argument("--train_size", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=5e-2)
    parser.add_argument("--warmup", type=int, default=4)
    return parser.parse_args([])


def main():
    args = parse_args()
    set_seed(42)
    accelerator = Accelerator()
    train_dl = DataLoader(
        ReverseDataset(args.train_size, args.vocab_size, args.max_len, seed=0),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
    )
    model = build_model(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.9)
    total = args.epochs * len(train_dl)
    scheduler = get_linear_schedule_with_warmup(optimizer, args.warmup, total)
    model, optimizer, train_dl, scheduler = accelerator.prepare(model, optimizer, train_dl, scheduler)

    for epoch in range(args.epochs):
        model.train()
        total_loss = torch.zeros((), device=accelerator.device)
        for batch in train_dl:
            outputs = model(**batch)
            accelerator.backward(outputs.loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            total_loss += outputs.loss.detach()
        accelerator.print(f"epoch {epoch} loss {total_loss.item() / len(train_dl):.4f}")


if __name__ == "__main__":
    main()
