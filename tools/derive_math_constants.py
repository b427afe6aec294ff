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


def spelled(value):
    """A binary32 number as the header spells it: 0x1.62e430p-1f."""
    digits, exponent = float(value).hex().split("p")
    sign = "-" if digits.startswith("-") else ""
    fraction = digits.split(".")[1][:6] if "." in digits else "0"
    return f"{sign}0x1.{fraction.ljust(6, '0')}p{exponent}f"


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
    row = ", ".join(spelled(v) for v in fixed)
    print(f"// {name}: error {error:.2e}\n{{{row}}}")
    return fixed


def parts(name, value, count):
    """value as a sum of `count` binary32 numbers of falling size."""
    out = []
    for _ in range(count):
        part = np.float32(float(mp.mpf(value)))
        out.append(spelled(part))
        value = mp.mpf(value) - mp.mpf(float(part))
    print(f"// {name}\n{{{', '.join(out)}}}")


def main():
    ln2 = mp.log(2)
    root = mp.sqrt
    parts("kLog2E", 1 / ln2, 1)
    parts("kLn2, kLn2Low", ln2, 2)
    parts("kTwoOverPi", 2 / mp.pi, 1)
    parts("kHalfPi, kHalfPiMiddle, kHalfPiLow", mp.pi / 2, 3)
    parts("kInverseSqrt2", 1 / root(2), 1)
    parts("kNormalPeak", 1 / root(2 * mp.pi), 1)
    parts("kGelu", 2 * root(2 / mp.pi), 1)
    parts("kGeluCubic", 2 * root(2 / mp.pi) * mp.mpf("0.044715"), 1)

    # exp(r) = 1 + r + r^2 c(r); expm1, tanh and the logistic function use the same c.
    half = float(ln2 / 2) * 1.0001
    fit("kExp", lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r), -half, half, range(5))
    # The others in u = x^2, save log.
    fit("kTanhSmall", lambda u: (mp.tanh(root(u)) - root(u)) / root(u)**3,
        lambda u: u * root(u) / mp.tanh(root(u)), 1e-9, 0.125**2, range(2))
    fit("kLog", lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: abs(f**3 / mp.log1p(f)), -0.25, 0.5, range(8))
    quarter = float(mp.pi / 4) * 1.0001
    fit("kSin", lambda u: (mp.sin(root(u)) - root(u)) / root(u)**3, lambda u: u * root(u) / mp.sin(root(u)),
        1e-9, quarter**2, range(3))
    fit("kCos", lambda u: (mp.cos(root(u)) - 1 + u / 2) / u**2, lambda u: u**2 / mp.cos(root(u)),
        1e-6, quarter**2, range(3))
    split, end = 0.9375, 3.9375
    fit("kErfSmall", lambda u: mp.erf(root(u)) / root(u) - 1, lambda u: root(u) / mp.erf(root(u)),
        1e-9, split**2, range(7))
    centre, radius = (split + end) / 2, (end - split) / 2
    parts("kErfScale", mp.mpf(1) / radius, 1)
    parts("kErfShift", mp.mpf(-centre) / radius, 1)
    fit("kErfLarge", lambda s: mp.erf(centre + radius * s), lambda s: 1 / mp.erf(centre + radius * s),
        -1.0, 1.0, range(15))


if __name__ == "__main__":
    main()
