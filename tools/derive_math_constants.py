#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the constants of kernels/math_constants.hpp: minimax polynomials with binary32 coefficients.

Each polynomial is fitted by Lawson's iteration (weighted least squares whose weights move towards the extrema), the
coefficient that matters most is rounded to binary32, and the rest are fitted again around it. Prints C++ rows, and per
polynomial the largest error relative to the whole function (2^-24 = 6.0e-8 is one rounding).
Needs python3-mpmath, python3-numpy.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 50
POINTS = 1200


def minimax(x, y, weight, powers, rounds=400):
    """Coefficients c minimising max |weight (y - sum c_i x^powers_i)| over the points x."""
    basis = np.stack([x**p for p in powers], axis=1) * weight[:, None]
    scale = np.abs(basis).max(axis=0)
    basis /= scale
    target = y * weight
    lawson = np.full(len(x), 1.0 / len(x), dtype=np.longdouble)
    best, best_error = None, np.inf
    for _ in range(rounds):
        root = np.sqrt(lawson).astype(np.float64)
        c = np.linalg.lstsq(basis * root[:, None], target * root, rcond=None)[0]
        residual = np.abs(target - basis @ c)
        if residual.max() < best_error:
            best, best_error = c.copy(), residual.max()
        lawson = lawson * residual
        lawson /= lawson.sum()
    return best / scale, best_error


def fit(name, function, whole, low, high, powers):
    """c with function(x) ~ sum c_i x^powers_i on [low, high]; errors are seen through weight(x) = `whole`."""
    nodes = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    y = np.array([float(function(mp.mpf(float(v)))) for v in nodes])
    weight = np.array([float(whole(mp.mpf(float(v)))) for v in nodes])
    fixed, rest, left = [], y.copy(), list(powers)
    while left:
        c, error = minimax(nodes, rest, weight, left)
        rounded = np.float32(c[0])
        fixed.append(rounded)
        rest = rest - float(rounded) * nodes ** left[0]
        left = left[1:]
    error = np.abs(weight * rest).max()
    row = ", ".join(float(v).hex() + "f" for v in fixed)
    print(f"// {name}: error {error:.2e}\n{{{row}}}")
    return fixed


def parts(name, value, count, bits=24):
    """value as a sum of `count` binary32 numbers of falling size."""
    out = []
    for _ in range(count):
        part = np.float32(float(mp.mpf(value)))
        out.append(float(part).hex() + "f")
        value = mp.mpf(value) - mp.mpf(float(part))
    print(f"// {name}\n{{{', '.join(out)}}}")


def main():
    ln2 = mp.log(2)
    parts("log2(e)", 1 / ln2, 1)
    parts("ln 2", ln2, 2)
    parts("2/pi", 2 / mp.pi, 1)
    parts("pi/2", mp.pi / 2, 3)
    parts("1/sqrt 2", 1 / mp.sqrt(2), 1)
    parts("sqrt(2/pi)", mp.sqrt(2 / mp.pi), 1)
    parts("1/sqrt(2 pi)", 1 / mp.sqrt(2 * mp.pi), 1)

    # exp(r) = 1 + r + r^2 c(r) on |r| <= ln2/2; expm1, tanh and sigmoid use the same c.
    half = float(ln2 / 2) * 1.0001
    fit("exp", lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r), -half, half, range(0, 5))
    fit("exp, one more", lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: abs(r**2 / mp.expm1(r)), -half, half, range(0, 6))
    # tanh x = x + x^3 c(x^2) for |x| < 1/8, in u = x^2.
    root = mp.sqrt
    for n in (2, 3):
        split = {2: 0.125, 3: 0.25}[n]
        fit(f"tanh {n}", lambda u: (mp.tanh(root(u)) - root(u)) / root(u)**3, lambda u: u * root(u) / mp.tanh(root(u)), 1e-9, split**2, range(0, n))
    # log(1+f) = f + f^2 (-1/2 + f c(f)) on -1/4 <= f <= 1/2; log1p uses the same c.
    for n in (8, 9):
        fit(f"log {n}", lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: abs(f**3 / mp.log1p(f)), -0.25, 0.5, range(0, n))
    # sin r = r + r^3 s(r^2), cos r = 1 - r^2/2 + r^4 c(r^2) on |r| <= pi/4, in u = r^2.
    quarter = float(mp.pi / 4) * 1.0001
    for n in (3, 4):
        fit(f"sin {n}", lambda u: (mp.sin(root(u)) - root(u)) / root(u)**3, lambda u: u * root(u) / mp.sin(root(u)), 1e-9, quarter**2, range(0, n))
    for n in (2, 3):
        fit(f"cos {n}", lambda u: (mp.cos(root(u)) - 1 + u / 2) / u**2, lambda u: u**2 / mp.cos(root(u)), 1e-6, quarter**2, range(0, n))
    # erf x = x + x c(x^2) up to the split; beyond it a polynomial in s = (x - centre) / radius.
    split, end = 0.9375, 3.9375
    for n in (6, 7):
        fit(f"erf small {n}", lambda u: mp.erf(root(u)) / root(u) - 1, lambda u: root(u) / mp.erf(root(u)), 1e-9, split**2, range(0, n))
    centre, radius = (split + end) / 2, (end - split) / 2
    for n in (13, 14, 15, 16):
        fit(f"erf large {n}, centre {centre} radius {radius}", lambda s: mp.erf(centre + radius * s), lambda s: 1 / mp.erf(centre + radius * s), -1.0, 1.0, range(0, n))


if __name__ == "__main__":
    main()
