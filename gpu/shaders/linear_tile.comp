// SPDX-License-Identifier: Apache-2.0
// A linear layer for many rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_tile.glsl"
