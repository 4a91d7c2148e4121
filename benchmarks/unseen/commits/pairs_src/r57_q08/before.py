"""Instruction tuning of a tiny Llama on padded conversations."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import LlamaConfig, LlamaForCausalLM

PAD, BOS, EOS = 0, 1, 2
VOCAB, MAX_LEN = 96, 24


def model_config():
    return LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_LEN,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation="eager",
    )


class Collator:
    def __init__(self, max_len):
        self.max_len = max_len

    def __call__(self, samples):
        ids = torch.full((len(samples), self.max_len), PAD)
        for i, s in enumerate(samples):
            s = s[: self.max_len]
            ids[i, : len(s)] = torch.tensor(s)
        return ids


def conversations(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        length = int(torch.randint(8, MAX_LEN - 1, (1,), generator=g))
        yield [BOS] + torch.randint(3, VOCAB, (length,), generator=g).tolist() + [EOS]


def build_optimizer(model, lr, weight_decay):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=weight_decay)


def train_step(model, optimizer, input_ids):
    attention_mask = input_ids.ne(PAD)
    labels = input_ids
    out = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return out.loss.detach()


def main(steps=5, batch_size=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = LlamaForCausalLM(model_config()).to(device).train()
    optimizer = build_optimizer(model, lr=5e-4, weight_decay=0.1)
    loader = torch.utils.data.DataLoader(
        list(conversations(steps * batch_size)), batch_size=batch_size, collate_fn=Collator(MAX_LEN)
    )
    torch_xla.sync()
    losses = []
    for input_ids in loader:
        losses.append(train_step(model, optimizer, input_ids.to(device)))
        torch_xla.sync()
    for i, loss in enumerate(losses):
        xm.master_print(f"step {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
