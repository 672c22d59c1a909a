"""Five small models that really learn. Parameters are a flat dict of arrays: simple to save and to send.

It does not know how a model is trained: in one process or in many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import data
import jax
import jax.numpy as jnp
import numpy as np
import optax

Params = dict[str, jax.Array]
Start = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    start: Callable[[np.random.Generator], Start]
    loss: Callable[[Params, data.Batch], jax.Array]
    batch: Callable[[np.random.Generator], data.Batch]
    learning_rate: float

    def start_of(self, seed: int) -> Start:
        return self.start(np.random.default_rng(seed))

    def batch_of(self, *seed: int) -> data.Batch:
        """The same numbers give the same batch, so a resumed run sees the same data."""
        return self.batch(np.random.default_rng(seed))


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights scaled by the number of inputs of one unit."""
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def cross_entropy(logits: jax.Array, targets: np.ndarray) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


# Which glyph is it? Two dense layers.


def mlp_start(rng: np.random.Generator) -> Start:
    pixels = data.SIDE**2
    return {
        "hidden": weights(rng, pixels, 512),
        "hidden_bias": zeros(512),
        "middle": weights(rng, 512, 256),
        "middle_bias": zeros(256),
        "out": weights(rng, 256, data.CLASSES),
        "out_bias": zeros(data.CLASSES),
    }


def mlp_loss(params: Params, batch: data.Batch) -> jax.Array:
    pictures, labels = batch
    hidden = jax.nn.relu(pictures.reshape(len(labels), -1) @ params["hidden"] + params["hidden_bias"])
    middle = jax.nn.relu(hidden @ params["middle"] + params["middle_bias"])
    return cross_entropy(middle @ params["out"] + params["out_bias"], labels)


# Which glyph is it? Two convolutions.


def cnn_start(rng: np.random.Generator) -> Start:
    return {
        "first": weights(rng, 5, 5, 1, 16),
        "second": weights(rng, 3, 3, 16, 32),
        "out": weights(rng, (data.SIDE // 4) ** 2 * 32, data.CLASSES),
        "out_bias": zeros(data.CLASSES),
    }


def cnn_loss(params: Params, batch: data.Batch) -> jax.Array:
    pictures, labels = batch
    x = pictures[..., None]
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(x, params[name], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x)
    return cross_entropy(x.reshape(len(labels), -1) @ params["out"] + params["out_bias"], labels)


# Take the noise away, through a bottleneck of 32 numbers.


def autoencoder_start(rng: np.random.Generator) -> Start:
    pixels = data.SIDE**2
    return {
        "encode": weights(rng, pixels, 384),
        "encode_bias": zeros(384),
        "narrow": weights(rng, 384, 32),
        "wide": weights(rng, 32, 384),
        "wide_bias": zeros(384),
        "decode": weights(rng, 384, pixels),
        "decode_bias": zeros(pixels),
    }


def autoencoder_loss(params: Params, batch: data.Batch) -> jax.Array:
    noisy, clean = batch
    x = noisy.reshape(len(noisy), -1)
    code = jax.nn.relu(x @ params["encode"] + params["encode_bias"]) @ params["narrow"]
    wide = jax.nn.relu(code @ params["wide"] + params["wide_bias"])
    logits = wide @ params["decode"] + params["decode_bias"]
    return optax.sigmoid_binary_cross_entropy(logits, clean.reshape(logits.shape)).mean()


# Which character comes next? A gated recurrent unit.


def gru_start(rng: np.random.Generator, width: int) -> Start:
    return {
        "embed": weights(rng, data.CHARACTERS, width),
        "input": weights(rng, width, 3 * width),
        "state": weights(rng, width, 3 * width),
        "bias": zeros(3 * width),
        "out": weights(rng, width, data.CHARACTERS),
    }


def gru_loss(params: Params, batch: data.Batch) -> jax.Array:
    text, following = batch
    inputs = params["embed"][text.T] @ params["input"] + params["bias"]

    def advance(state: jax.Array, given: jax.Array) -> tuple[jax.Array, jax.Array]:
        update, reset, new = jnp.split(given, 3, axis=-1)
        from_state = jnp.split(state @ params["state"], 3, axis=-1)
        update = jax.nn.sigmoid(update + from_state[0])
        reset = jax.nn.sigmoid(reset + from_state[1])
        state = (1 - update) * state + update * jnp.tanh(new + reset * from_state[2])
        return state, state

    _, states = jax.lax.scan(advance, jnp.zeros((len(text), params["state"].shape[0])), inputs)
    return cross_entropy(states @ params["out"], following.T)


# Which character comes next? A transformer of one block: a second one would double the time to compile.


def transformer_start(rng: np.random.Generator, width: int, length: int) -> Start:
    return {
        "embed": 4 * weights(rng, data.CHARACTERS, width),
        "where": weights(rng, length, width),
        "attend": weights(rng, width, 3 * width),
        "join": weights(rng, width, width),
        "up": weights(rng, width, 4 * width),
        "down": weights(rng, 4 * width, width),
        "out": weights(rng, width, data.CHARACTERS),
    }


def transformer_loss(params: Params, batch: data.Batch, heads: int) -> jax.Array:
    text, following = batch
    count, length = text.shape
    x = params["embed"][text] + params["where"]
    parts = jnp.split(norm(x) @ params["attend"], 3, axis=-1)
    query, key, value = (part.reshape(count, length, heads, -1) for part in parts)
    seen = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    x = x + seen.reshape(count, length, -1) @ params["join"]
    x = x + jax.nn.relu(norm(x) @ params["up"]) @ params["down"]
    return cross_entropy(norm(x) @ params["out"], following)


def norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


LENGTH = 32

MODELS = {
    "mlp": Model(
        start=mlp_start,
        loss=mlp_loss,
        batch=partial(data.labelled_glyphs, count=256),
        learning_rate=1e-3,
    ),
    "cnn": Model(
        start=cnn_start,
        loss=cnn_loss,
        batch=partial(data.labelled_glyphs, count=160),
        learning_rate=3e-3,
    ),
    "autoencoder": Model(
        start=autoencoder_start,
        loss=autoencoder_loss,
        batch=partial(data.noisy_and_clean_glyphs, count=256),
        learning_rate=1e-3,
    ),
    "gru": Model(
        start=partial(gru_start, width=96),
        loss=gru_loss,
        batch=partial(data.passages, count=32, length=LENGTH),
        learning_rate=3e-3,
    ),
    "transformer": Model(
        start=partial(transformer_start, width=96, length=LENGTH),
        loss=partial(transformer_loss, heads=4),
        batch=partial(data.passages, count=16, length=LENGTH),
        learning_rate=2e-3,
    ),
}
