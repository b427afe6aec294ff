// SPDX-License-Identifier: Apache-2.0

#pragma once

/// The constants of the transcendental functions, and a few of other operations: one set for scalars, vectors and
/// shaders, as their formulas are (kernels/formulas/). Derived by tools/derive_math_constants.py; how they are
/// used: docs/numerics.md. Array element i multiplies the i-th power.
namespace weft::kernels::constants {

/// Adding it rounds |v| < 2^22 to the nearest integer (ties to even), which then stands in the low bits of the sum.
inline constexpr float kRound = 0x1.8p23f;

inline constexpr float kSmallestNormal = 0x1p-126f, kLargestFloat = 0x1.fffffep+127f;
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2 = 0x1.62e430p-1f;
/// ln 2 - kLn2.
inline constexpr float kLn2Low = -0x1.05c610p-29f;

/// exp(r) = 1 + r + r^2 c(r), |r| <= ln(2)/2, error 3.2e-9.
inline constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aap-5f, 0x1.12396ep-7f, 0x1.6a5250p-10f};
/// (exp(2h) - 1) / 2 = h + h^2 c(h): kExp times powers of two, so the bits are those of exp(2h).
inline constexpr float kExpHalf[] = {2.0f * kExp[0], 4.0f * kExp[1], 8.0f * kExp[2], 16.0f * kExp[3], 32.0f * kExp[4]};
/// The largest x whose exp is finite, and the smallest whose exp is normal.
inline constexpr float kExpLargest = 0x1.62e42ep+6f, kExpSmallest = -0x1.5d589ep+6f;

/// tanh x = x + x^3 c(x^2) for |x| < kTanhSplit, error 8e-9.
inline constexpr float kTanhSplit = 0.125f;
inline constexpr float kTanhSmall[] = {-0x1.5553dcp-2f, 0x1.0eadd8p-3f};
/// tanh and logistic arguments are clamped here: the result is constant to the last bit beyond.
inline constexpr float kTanhClamp = 10.0f;
inline constexpr float kLogisticClamp = 88.0f;
/// expm1(x) is -1 below.
inline constexpr float kExpm1Clamp = -20.0f;

/// log(1+f) = f + f^2 (-1/2 + f c(f)), -1/4 <= f <= 1/2, error 5e-9.
inline constexpr float kLog[] = {0x1.5555a4p-2f, -0x1.00004ap-2f, 0x1.99699ep-3f, -0x1.54ed96p-3f,
                                 0x1.28807ap-3f, -0x1.0d98f0p-3f, 0x1.acf4a8p-4f, -0x1.71e32cp-5f};

/// Beyond it sin and cos are NaN: three terms of pi/2 no longer give two correct ulp.
inline constexpr float kTrigLimit = 0x1p20f;
inline constexpr float kTwoOverPi = 0x1.45f306p-1f;
/// pi/2 as a sum of three.
inline constexpr float kHalfPi = 0x1.921fb6p+0f, kHalfPiMiddle = -0x1.777a5cp-25f, kHalfPiLow = -0x1.ee59dap-50f;
/// sin r = r + r^3 s(r^2) and cos r = 1 - r^2/2 + r^4 c(r^2), |r| <= pi/4, errors 4e-9 and 1.2e-10.
inline constexpr float kSin[] = {-0x1.555546p-3f, 0x1.110778p-7f, -0x1.995400p-13f};
inline constexpr float kCos[] = {0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e80cp-16f};

/// erf x = x + x c(x^2) for |x| < kErfSplit, error 9e-10.
inline constexpr float kErfSplit = 0.9375f;
inline constexpr float kErfSmall[] = {0x1.06eba8p-3f, -0x1.812740p-2f,  0x1.ce2d64p-4f, -0x1.b80120p-6f,
                                      0x1.544aa8p-8f, -0x1.a6126ep-11f, 0x1.4f8e58p-14f};
/// erf |x| = c(s), s = (|x| - 2.4375) / 1.5, from the split to kErfOne, error 1e-8; 1 beyond.
inline constexpr float kErfOne = 3.9375f, kErfScale = 0x1.555556p-1f, kErfShift = -1.625f;
inline constexpr float kErfLarge[] = {0x1.ffb5bep-1f,  0x1.238956p-8f,   -0x1.0a7deep-6f, 0x1.297f5ap-5f,
                                      -0x1.bbd69cp-5f, 0x1.bfd8f0p-5f,   -0x1.182c92p-5f, 0x1.b76e0ep-8f,
                                      0x1.5d333ep-7f,  -0x1.90f54ap-7f,  0x1.0c4320p-8f,  0x1.57fe7cp-9f,
                                      -0x1.3219dep-9f, -0x1.453d7cp-14f, 0x1.6dbcd4p-12f};

inline constexpr float kInverseSqrt2 = 0x1.6a09e6p-1f;
/// 1/sqrt(2 pi).
inline constexpr float kNormalPeak = 0x1.988454p-2f;
/// 2 sqrt(2/pi) and 0.044715 times it: gelu_tanh is x times the logistic of x (kGelu + kGeluCubic x^2).
inline constexpr float kGelu = 0x1.988454p+0f, kGeluCubic = 0x1.2444f2p-4f;
inline constexpr float kLeakySlope = 0.01f;
/// Slopes are constant to the last bit beyond these, and products with an infinite argument are avoided.
inline constexpr float kSlopeClamp = 100.0f, kGeluClamp = 15.0f, kMishClamp = 30.0f;

/// A link whose budget is less carries nothing; an input whose weights add up to no more is displaced by nothing
/// (target_rules.cpp).
inline constexpr float kLeastBudget = 0.2f, kLeastGapSum = 0.01f;

}  // namespace weft::kernels::constants
