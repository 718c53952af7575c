"""Writes ../data/scaled_steps.json: training steps with gradients clipped by their global norm and losses in a dynamic
scale, as PyTorch does them (torch.nn.utils.clip_grad_norm_, torch.amp.GradScaler), with gradients that overflow; some with the
mean of the gradients of two batches in a step.

    python make_scaled_steps.py
"""
import json
import math
import os

import torch

STEPS = 12
OVERFLOWS = {3: math.inf, 4: math.nan, 8: -math.inf}
SHAPES = {"a": (5,), "b": (3, 2)}


def gradients(step, batch):
    generator = torch.Generator().manual_seed(step + 1000 * batch)
    made = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    return made


def run(optimizer, clip, scaled, batches=1):
    weights = {name: torch.linspace(-1, 1, math.prod(shape)).reshape(shape).requires_grad_()
               for name, shape in SHAPES.items()}
    if optimizer == "sgd":
        rule = torch.optim.SGD(weights.values(), lr=0.1, momentum=0.9)
    else:
        rule = torch.optim.AdamW(weights.values(), lr=0.05, weight_decay=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3, enabled=scaled)
    steps = []
    for step in range(STEPS):
        given = [gradients(step, batch) for batch in range(batches)]
        if scaled and step in OVERFLOWS:
            given[-1]["b"][1, 0] = OVERFLOWS[step]
        rule.zero_grad()
        for batch in given:
            loss = sum((weights[name] * g).sum() for name, g in batch.items()) / batches
            scaler.scale(loss).backward()
        scaler.unscale_(rule)
        if clip:
            torch.nn.utils.clip_grad_norm_(weights.values(), clip)
        scaler.step(rule)
        scaler.update()
        if optimizer == "adamw" and scaled and step in OVERFLOWS:
            for state in rule.state.values():
                state["step"] += 1  # Kaon counts steps that change nothing
        steps.append({"gradients": [{n: [str(float(v)) for v in g.flatten()] for n, g in batch.items()}
                                    for batch in given],
                      "weights": {n: [float(v) for v in w.detach().flatten()] for n, w in weights.items()},
                      "scale": float(scaler.get_scale())})
    return {"optimizer": optimizer, "clip": clip, "scaled": scaled, "batches": batches, "steps": steps}


def main():
    cases = [run(optimizer, clip, scaled)
             for optimizer in ("sgd", "adamw") for clip in (0, 0.5, 1.5) for scaled in (False, True) if clip or scaled]
    cases += [run("sgd", 0, False, 2), run("sgd", 0.5, True, 2), run("adamw", 0, True, 2), run("adamw", 0.5, False, 3)]
    path = os.path.join(os.path.dirname(__file__), "..", "data", "scaled_steps.json")
    with open(path, "w") as file:
        json.dump({"torch": torch.__version__.split("+")[0], "cases": cases}, file, indent=None)
        file.write("\n")


if __name__ == "__main__":
    main()
