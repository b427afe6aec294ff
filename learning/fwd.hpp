// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::learning {
class Learner;
class Optimizer;
class Stream;
class Waves;
struct Dataset;
struct LearningOptions;
struct Score;
struct StreamOptions;
struct Target;
}  // namespace weft::learning
