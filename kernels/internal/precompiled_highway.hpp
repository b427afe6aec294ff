// SPDX-License-Identifier: Apache-2.0
// Headers of the files that are re-included once per ISA, precompiled where WEFT_PRECOMPILE is "all": Highway's
// operations for both of x86's passes. kernels/foreach_isa.hpp then defines the macros of each pass and reads no more.

#pragma once

#include <hwy/base.h>
#include <hwy/detect_targets.h>

#if defined(__x86_64__)
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#include <hwy/highway.h>
#define HWY_TARGET_TOGGLE
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include <hwy/highway.h>
#undef HWY_TARGET_TOGGLE
#define WEFT_HIGHWAY_PRECOMPILED
#endif
