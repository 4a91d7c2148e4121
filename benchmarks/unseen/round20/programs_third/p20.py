"""Code completion: train a tiny GPT-2 on synthetic token streams and sample completions."""
import random

import torch
import torch_xla
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB = 40
PAD, EOS = 0, 1
CONTEXT = 24
BATCH = 4
STEPS = 32
NEW_TOKENS = 3


def snippet(rng, length):
    """Nested calls: opening tokens are closed in reverse order."""
    out, stack = [], []
    while len(out) < length:
        if stack and rng.random() < 0.5:
            out.append(stack.pop() + 10)
        else:
            stack.append(rng.randint(2, 11))
            out.append(stack[-1])
    return out


def training_batch(rng):
    return torch.tensor([snippet(rng, CONTEXT) for _ in range(BATCH)])


def cursor_prompt(rng):
    """What an editor would send: everything before the cursor."""
    return torch.tensor([snippet(rng, rng.randint(4, 18))])


def complete(model, prompt, device):
    model.eval()
    prompt = prompt.to(device)
    mask = torch.ones_like(prompt)
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS,
                             min_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=PAD)
    model.train()
    return out[0, -NEW_TOKENS:].tolist()


def main():
    torch.manual_seed(30)
    rng = random.Random(31)
    device = torch_xla.device()
    config = GPT2Config(vocab_size=VOCAB, n_positions=32, n_embd=16, n_layer=1, n_head=2,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        bos_token_id=EOS, eos_token_id=EOS, pad_token_id=PAD)
    model = GPT2LMHeadModel(config).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for step in range(1, STEPS + 1):
        ids = training_batch(rng).to(device)
        opt.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            print(step, f"loss {loss.item():.3f}", complete(model, cursor_prompt(rng), device))


if __name__ == "__main__":
    main()
