import numpy as np
import torch
import torch_xla
from torch.utils.data import DataLoader, TensorDataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup


def copy_task(n=48, length=9, vocab=40):
    g = torch.Generator().manual_seed(0)
    src = torch.randint(4, vocab, (n, length), generator=g)
    return TensorDataset(src, torch.ones_like(src), src.flip(1))


def config():
    return BartConfig(
        vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        encoder_layerdrop=0.3, decoder_layerdrop=0.3, use_cache=False, attn_implementation="eager",
    )


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch_xla.device()
    model = BartForConditionalGeneration(config()).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 3, 40)
    loader = DataLoader(copy_task(), batch_size=4, shuffle=True)
    for step, batch in enumerate(loader):
        ids, mask, labels = (t.to(device) for t in batch)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        torch_xla.sync()
        print(step, round(loss.item(), 4))
        if step == 7:
            break


if __name__ == "__main__":
    main()
