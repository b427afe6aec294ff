// SPDX-License-Identifier: Apache-2.0
// Places are counted from zero. expect: narrowing
#include "core/coord.hpp"

#ifdef WEFT_BAD
constexpr weft::Coord kPlace{0, -1, 0, 0};
#else
constexpr weft::Coord kPlace{0, 1, 0, 0};
#endif

int main() { return static_cast<int>(kPlace.x); }
