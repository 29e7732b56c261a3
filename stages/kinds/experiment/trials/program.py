"""Trains the networks of one recipe, and answers for the rows that judge it.

The built-in researcher's program: each node is this file with another `RECIPE`. It stands alone,
needs numpy and torch, and repeats exactly with the same seed on the same machine.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

# <recipe>
RECIPE: dict[str, Any] = {}
SWITCH: dict[str, Any] = {}  # the choices that take the place of those above with the intervention
# </recipe>

EPOCHS_MAX = 2000
LOSS_MAX = 1e6  # far above any loss of a network that still learns
WIDTH_MAX = 4096
DEPTH_MAX = 32
MEMBERS_MAX = 50
TINY = 1e-12  # keeps the log of a certain mistake finite
TEMPERATURES = np.exp(np.linspace(-2.0, 2.0, 161))
STEPS = ((0.85, 0.01), (0.6, 0.1))  # from this share of the training on, this factor
PEAK = 0.3  # the share at which one cycle stands highest
ACTIVATIONS: dict[str, Any] = {
    "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "gelu": nn.GELU, "silu": nn.SiLU,
    "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
}  # fmt: skip
NORMS: dict[str, Any] = {"none": lambda _: nn.Identity(), "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


def run(task: Any) -> Any:
    """Train the recipe's networks; return class probabilities, or values in the target's own unit."""
    torch.set_num_threads(1)  # sums split over another number of threads differ in the last digits
    torch.use_deterministic_algorithms(True)
    if task.intervention:
        RECIPE.update(SWITCH)
    check(task)
    seeds = np.random.default_rng(task.seed).integers(0, 2**31, size=RECIPE["members"] - 1)
    members = [train(task, seed) for seed in [task.seed, *map(int, seeds)]]
    for epoch, losses in enumerate(members[0]["losses"]):
        watched = np.mean([member["watched"][epoch] for member in members], axis=0)
        train_loss = np.mean([member["losses"][epoch] for member in members]) if len(members) > 1 else losses
        task.point(epoch + 1, train_loss, loss_of(task, watched, task.watch.targets))
    task.size(sum(member["parameters"] for member in members))
    return np.mean([member["judged"] for member in members], axis=0)


def check(task: Any) -> None:
    """Refuse a recipe that makes no sense for this task."""
    known = {
        "network": ("mlp", "cnn"), "activation": tuple(ACTIVATIONS), "normalisation": tuple(NORMS),
        "optimiser": ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"),
        "schedule": ("constant", "cosine", "linear", "step", "one_cycle"),
    }  # fmt: skip
    for name, values in known.items():
        if RECIPE[name] not in values:
            raise ValueError(f"{name} {RECIPE[name]!r} is unknown; known: {', '.join(values)}")
    if not (1 <= RECIPE["width"] <= WIDTH_MAX and 0 <= RECIPE["depth"] <= DEPTH_MAX):
        raise ValueError(f"width {RECIPE['width']} or depth {RECIPE['depth']} is out of range")
    if not 0.0 <= RECIPE["dropout"] < 1.0:
        raise ValueError(f"dropout {RECIPE['dropout']} is not in [0, 1)")
    if not 1 <= RECIPE["members"] <= MEMBERS_MAX:
        raise ValueError(f"an ensemble of {RECIPE['members']} networks is out of range")
    if task.image_side is None and (RECIPE["network"] == "cnn" or RECIPE["shift"]):
        raise ValueError("there are no images to convolve or shift")
    if RECIPE["temperature"] and task.kind != "classification":
        raise ValueError("temperature scaling needs class probabilities")


class Block(nn.Module):
    """One hidden layer, with a bypass where the recipe asks for one and the shapes allow it."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        width = RECIPE["width"]
        self.layers = nn.Sequential(
            nn.Linear(inputs, width),
            NORMS[RECIPE["normalisation"]](width),
            ACTIVATIONS[RECIPE["activation"]](),
            nn.Dropout(RECIPE["dropout"]),
        )
        self.bypass = RECIPE["residual"] and inputs == width

    def forward(self, rows: Any) -> Any:
        changed = self.layers(rows)
        return rows + changed if self.bypass else changed


def build(task: Any) -> Any:
    """Return the untrained network."""
    features, width = task.train.features.shape[1], RECIPE["width"]
    stem: nn.Module = nn.Identity()
    if RECIPE["network"] == "cnn":
        side, channels, activation = task.image_side, max(1, width // 4), ACTIVATIONS[RECIPE["activation"]]
        stem = nn.Sequential(
            nn.Unflatten(1, (1, side, side)), nn.Conv2d(1, channels, 3, padding=1), activation(),
            nn.MaxPool2d(2), nn.Conv2d(channels, 2 * channels, 3, padding=1), activation(), nn.MaxPool2d(2),
            nn.Flatten(),
        )  # fmt: skip
        features = 2 * channels * (side // 4) ** 2
    blocks = [Block(features if index == 0 else width) for index in range(RECIPE["depth"])]
    return nn.Sequential(stem, *blocks, nn.Linear(width if blocks else features, task.outputs))


def train(task: Any, seed: int) -> dict[str, Any]:
    """Train one network from `seed`; return its losses, and its answers per epoch and at the end."""
    torch.manual_seed(seed)  # initial weights and dropout
    chance = np.random.default_rng(seed)
    network = build(task).to(task.device)
    features, targets = tensors(task)
    epochs = min(EPOCHS_MAX, max(1, round(RECIPE["epochs"] * RECIPE["training_length"])))
    batches = max(1, len(features) // RECIPE["batch_size"])  # a short last batch is left out
    optimiser = make_optimiser(network)
    average, best = Average(network), Best()
    losses: list[float] = []
    watched: list[Any] = []
    step = 0
    for _ in range(epochs):
        network.train()
        total = torch.zeros((), device=task.device)
        order = torch.from_numpy(chance.permutation(len(features))).to(task.device)
        for batch in torch.split(order[: batches * RECIPE["batch_size"]], RECIPE["batch_size"]):
            rate = RECIPE["lr"] * factor(step / (epochs * batches))
            rows, wanted = augmented(task, chance, features[batch], targets[batch])
            total += learn(task, network, optimiser, rate, rows, wanted)
            average.follow(network)
            step += 1
        loss = float(total) / batches
        if not math.isfinite(loss) or loss > LOSS_MAX:
            raise ArithmeticError(f"the training diverged: its loss is {loss:.3g}")
        losses.append(loss)
        with average.applied(network):
            watched.append(answers(task, outputs(task, network, task.watch.features)))
            if RECIPE["early_stop"]:
                best.see(network, loss_of(task, watched[-1], task.watch.targets))
    with average.applied(network):
        best.restore(network)
        temperature = fitted_temperature(task, network) if RECIPE["temperature"] else 1.0
        judged = answers(task, outputs(task, network, task.judge.features) / temperature)
    count = sum(weights.numel() for weights in network.parameters())
    return {"losses": losses, "watched": watched, "judged": judged, "parameters": count}


def tensors(task: Any) -> tuple[Any, Any]:
    """Return training rows on the device, targets as soft labels or standardised values."""
    features = torch.from_numpy(task.train.features).to(task.device)
    if task.kind == "classification":
        labels = np.eye(task.outputs, dtype=np.float32)[task.train.targets]
        return features, torch.from_numpy(labels).to(task.device)
    mean, scale = target_scale(task)
    values = ((task.train.targets - mean) / scale).astype(np.float32)[:, None]
    return features, torch.from_numpy(values).to(task.device)


def target_scale(task: Any) -> tuple[float, float]:
    """Return mean and deviation of the training values."""
    scale = float(task.train.targets.std())
    return float(task.train.targets.mean()), scale if scale > 0 else 1.0


def learn(task: Any, network: Any, optimiser: Any, rate: float, rows: Any, wanted: Any) -> Any:
    """Take one step; return the loss before it."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    loss: Any
    if task.kind == "regression":
        loss = functional.mse_loss(network(rows), wanted)
    else:
        loss = functional.cross_entropy(network(rows), wanted, label_smoothing=RECIPE["label_smoothing"])
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    if RECIPE["gradient_clip"] > 0:
        nn.utils.clip_grad_norm_(network.parameters(), RECIPE["gradient_clip"])
    optimiser.step()
    return loss.detach()


def make_optimiser(network: Any) -> Any:
    """Return the recipe's optimiser."""
    weights, name = network.parameters(), RECIPE["optimiser"]
    usual: dict[str, Any] = {"lr": RECIPE["lr"], "weight_decay": RECIPE["weight_decay"]}
    if name in ("sgd", "momentum", "nesterov"):
        momentum = 0.0 if name == "sgd" else RECIPE["momentum"]
        return torch.optim.SGD(weights, momentum=momentum, nesterov=name == "nesterov", **usual)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    return kinds[name](weights, **usual)


def factor(done: float) -> float:
    """Return the factor on the learning rate after the share `done` (0 to 1) of all steps."""
    schedule, warm_up = RECIPE["schedule"], RECIPE["warm_up"]
    if done < warm_up:
        return float(max(done, 1e-3) / warm_up)
    left = (done - warm_up) / (1.0 - warm_up) if warm_up < 1.0 else 1.0
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * left))
    if schedule == "linear":
        return float(1.0 - left)
    if schedule == "step":
        return next((value for start, value in STEPS if left >= start), 1.0)
    if schedule == "one_cycle" and left < PEAK:
        return float(left / PEAK)
    if schedule == "one_cycle":
        return 0.5 * (1.0 + math.cos(math.pi * (left - PEAK) / (1.0 - PEAK)))
    return 1.0


def augmented(task: Any, chance: Any, rows: Any, targets: Any) -> tuple[Any, Any]:
    """Return a batch altered by shifts, noise and mixtures of pairs."""
    if RECIPE["shift"]:
        rows = shifted(task, chance, rows)
    if RECIPE["noise"] > 0:
        noise = chance.standard_normal(tuple(rows.shape), dtype=np.float32)
        rows = rows + RECIPE["noise"] * torch.from_numpy(noise).to(rows.device)
    if RECIPE["mix_up"] > 0:
        share = float(chance.beta(RECIPE["mix_up"], RECIPE["mix_up"]))
        partner = torch.from_numpy(chance.permutation(len(rows))).to(rows.device)
        rows = share * rows + (1.0 - share) * rows[partner]
        targets = share * targets + (1.0 - share) * targets[partner]
    return rows, targets


def shifted(task: Any, chance: Any, rows: Any) -> Any:
    """Move each image by whole pixels; what comes into view is empty."""
    side, reach = task.image_side, RECIPE["shift"]
    padded = functional.pad(rows.view(-1, side, side), (reach,) * 4, value=task.blank)
    moves = torch.from_numpy(chance.integers(0, 2 * reach + 1, size=(2, len(rows)))).to(rows.device)
    window = torch.arange(side, device=rows.device)
    down = (moves[0][:, None] + window)[:, :, None]
    across = (moves[1][:, None] + window)[:, None, :]
    number = torch.arange(len(rows), device=rows.device)[:, None, None]
    return padded[number, down, across].reshape(len(rows), -1)


def outputs(task: Any, network: Any, features: Any) -> Any:
    """Return the raw outputs of `network` for every row."""
    network.eval()
    with torch.no_grad():
        return network(torch.from_numpy(features).to(task.device)).double().cpu().numpy()


def answers(task: Any, raw: Any) -> Any:
    """Return class probabilities, or values in the target's own unit."""
    if task.kind == "regression":
        mean, scale = target_scale(task)
        return raw[:, 0] * scale + mean
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def loss_of(task: Any, given: Any, targets: Any) -> float:
    """Return the mean loss: negative log-likelihood, or squared error in standardised units."""
    if task.kind == "regression":
        return float((((given - targets) / target_scale(task)[1]) ** 2).mean())
    picked = given[np.arange(len(targets)), targets]
    return float(-np.log(np.clip(picked, TINY, 1.0)).mean())


def fitted_temperature(task: Any, network: Any) -> float:
    """Return the temperature with the lowest loss on the watched rows."""
    raw = outputs(task, network, task.watch.features)
    losses = [loss_of(task, answers(task, raw / each), task.watch.targets) for each in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmin(losses))])


class Average:
    """Follows a network by an exponential mean of its weights; without effect at decay 0."""

    def __init__(self, network: Any) -> None:
        self.decay = RECIPE["weight_average"]
        self.steps = 0
        self.mean = copy.deepcopy(network.state_dict()) if self.decay > 0 else None

    def follow(self, network: Any) -> None:
        """Take the newest weights into the mean; early on it forgets faster, as it knows little."""
        if self.mean is None:
            return
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9.0))
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                self.mean[name].lerp_(value, 1.0 - decay)
            else:
                self.mean[name].copy_(value)

    def applied(self, network: Any) -> Swapped:
        """Return a context in which the mean stands in the place of the weights."""
        return Swapped(network, self.mean)


class Swapped:
    """Puts other weights into a network for a while; None leaves them."""

    def __init__(self, network: Any, weights: Any) -> None:
        self.network = network
        self.weights = weights
        self.newest: Any = None

    def __enter__(self) -> None:
        if self.weights is not None:
            self.newest = copy.deepcopy(self.network.state_dict())
            self.network.load_state_dict(self.weights)

    def __exit__(self, *_: object) -> None:
        if self.weights is not None:
            self.network.load_state_dict(self.newest)


class Best:
    """Remembers the weights with the lowest loss on the watched rows."""

    def __init__(self) -> None:
        self.loss = math.inf
        self.weights: Any = None

    def see(self, network: Any, loss: float) -> None:
        """Keep the weights of `network` if its loss is the lowest so far."""
        if loss < self.loss:
            self.loss, self.weights = loss, copy.deepcopy(network.state_dict())

    def restore(self, network: Any) -> None:
        """Put the kept weights back."""
        if self.weights is not None:
            network.load_state_dict(self.weights)
