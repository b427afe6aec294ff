// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::scheduler {
class Clock;
class DeterministicExecutor;
class Executor;
class Team;
class TickProgram;
class TimeSource;
struct ExecutorOptions;
struct ThreadHooks;
}  // namespace weft::scheduler
