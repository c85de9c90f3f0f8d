"""What a decoding step costs with each attention, and what the attention keeps of the tokens so far.

    python benchmarks/attentions.py --attentions mha gqa mqa mla

Decoders of 4 layers of width 512 with 8 heads, random weights, rotary positions. Each has read a prompt and
then writes on, 16 steps at a time, all attentions in turn; the ratio is the median over these turns. With one
thread seconds are those of the processor.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import torch
import yaml

import plugformer
from plugformer.interfaces import HeadInput, Tokens, evaluating

WIDTH, HEADS, LAYERS, VOCABULARY, STEPS = 512, 8, 4, 1000, 16


def writer(attention: str, rows: int, prompt: int, longest: int) -> Iterator[float]:
    """Yields first the kB that are kept of a token, then the seconds of each `STEPS` steps."""
    model = plugformer.create_model(
        "decoder-only",
        vocabulary=VOCABULARY,
        width=WIDTH,
        heads=HEADS,
        layers=LAYERS,
        ffn_width=4 * WIDTH,
        max_length=longest,
        position="rope",
        attention=yaml.safe_load(attention),
    ).eval()
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    generator = torch.Generator().manual_seed(1)
    read = torch.randint(4, VOCABULARY, (rows, prompt), generator=generator).tolist()
    with evaluating(model):
        past, hidden = model.begin(model.batch(inputs=read))
        states = [state for states in past.layers for state in states.values()]
        kept = [tensor.narrow(-2, 0, past.end) for state in states for tensor in state.tokens]
        yield sum(tensor.numel() * tensor.element_size() for tensor in kept) / (rows * past.end) / 1e3
        real = torch.ones(rows, 1, dtype=torch.bool)
        while True:
            started = clock()
            for _ in range(STEPS):
                new = model.head.logits(hidden[:, None], HeadInput(real))[:, -1:].argmax(dim=-1)
                hidden = model.step(Tokens(new, real, full=True), past)[:, -1]
            yield clock() - started


def main() -> None:
    """Prints a table for each length of the prompt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attentions", nargs="+", default=["mha", "{name: gqa, kv_heads: 2}", "mqa", "mla"])
    parser.add_argument("--prompts", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for prompt in arguments.prompts:
        longest = prompt + STEPS * (arguments.rounds + 1) + 2
        writers = [writer(name, arguments.rows, prompt, longest) for name in arguments.attentions]
        kept = [next(each) for each in writers]
        turns = [[next(each) for each in writers] for _ in range(arguments.rounds + 1)][1:]
        print(f"\n{arguments.rows} rows behind prompts of {prompt} tokens")
        for number, name in enumerate(arguments.attentions):
            seconds = statistics.median(turn[number] for turn in turns)
            ratio = statistics.median(turn[0] / turn[number] for turn in turns)
            rate = arguments.rows * STEPS / seconds
            print(f"{name:28}{kept[number]:8.2f} kB a token{rate:10,.0f} tokens/s   {ratio:.2f}x")


if __name__ == "__main__":
    main()
