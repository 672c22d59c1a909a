"""Data without a download: the text of Python's own manual, and glyphs, shifted and covered with noise."""

from functools import cache
from pydoc_data.topics import topics

import numpy as np

Batch = tuple[np.ndarray, np.ndarray]  # inputs, targets

SIDE = 16  # pixels
CLASSES = 16
CHARACTERS = 96  # printable ASCII; all other characters, also line ends, are one more

# The sixteen hexadecimal digits, five pixels wide and seven high: one number per row, one bit per pixel.
FONT = """
0E 11 13 15 19 11 0E  04 0C 04 04 04 04 0E  0E 11 01 02 04 08 1F  1F 02 04 02 01 11 0E
02 06 0A 12 1F 02 02  1F 10 1E 01 01 11 0E  06 08 10 1E 11 11 0E  1F 01 02 04 08 08 08
0E 11 11 0E 11 11 0E  0E 11 11 0F 01 02 0C  0E 11 11 11 1F 11 11  1E 11 11 1E 11 11 1E
0E 11 10 10 10 11 0E  1C 12 11 11 11 12 1C  1F 10 10 1E 10 10 1F  1F 10 10 1E 10 10 10
"""


@cache
def font() -> np.ndarray:
    """(16, 7, 5) of 0 and 1."""
    rows = np.array([int(row, 16) for row in FONT.split()]).reshape(CLASSES, 7, 1)
    return ((rows >> np.arange(4, -1, -1)) & 1).astype(np.float32)


def glyphs(rng: np.random.Generator, count: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy pictures (count, 16, 16), the same without noise, and the glyph of each."""
    labels = rng.integers(CLASSES, size=count)
    down = rng.integers(SIDE - 7 + 1, size=(count, 1, 1)) + np.arange(7).reshape(1, 7, 1)
    right = rng.integers(SIDE - 5 + 1, size=(count, 1, 1)) + np.arange(5).reshape(1, 1, 5)
    clean = np.zeros((count, SIDE, SIDE), np.float32)
    clean[np.arange(count).reshape(count, 1, 1), down, right] = font()[labels]
    contrast = rng.uniform(0.6, 1.4, size=(count, 1, 1)).astype(np.float32)
    noisy = clean * contrast + noise * rng.standard_normal(clean.shape, dtype=np.float32)
    return noisy, clean, labels.astype(np.int32)


def labelled_glyphs(rng: np.random.Generator, count: int) -> Batch:
    noisy, _, labels = glyphs(rng, count, noise=0.35)
    return noisy, labels


def noisy_and_clean_glyphs(rng: np.random.Generator, count: int) -> Batch:
    noisy, clean, _ = glyphs(rng, count, noise=0.35)
    return noisy, clean


@cache
def manual() -> np.ndarray:
    """Half a million characters of Python's manual as small numbers."""
    text = "\n".join(topics[name] for name in sorted(topics))
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32) - 32
    return np.where((codes >= 0) & (codes < CHARACTERS - 1), codes, CHARACTERS - 1)


def passages(rng: np.random.Generator, count: int, length: int) -> Batch:
    """Passages of the manual, and the same passages shifted by one character."""
    text = manual()
    starts = rng.integers(len(text) - length - 1, size=(count, 1))
    cut = text[starts + np.arange(length + 1)]
    return cut[:, :-1], cut[:, 1:]
