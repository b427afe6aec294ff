// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace weft::storage {

/// Runs `run(promise)` in a process of its own, which calls `promise(number)` for each thing it has made sure of, and
/// kills it at a random moment: after fewer than `most_promises`, and then within `most_us` microseconds. Returns the
/// last number promised, 0 when there was none.
template <class Run>
std::uint64_t run_until_killed(RandomStream& random, std::uint32_t most_promises, std::uint32_t most_us, Run run) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    ::close(ends[0]);
    run([&](std::uint64_t number) {
      if (::write(ends[1], &number, sizeof number) != sizeof number) ::_exit(3);
    });
    ::_exit(4);
  }
  ::close(ends[1]);
  std::uint64_t promised = 0, number = 0;
  const auto hear = [&] {
    const bool is_more = ::read(ends[0], &number, sizeof number) == sizeof number;
    if (is_more) promised = std::max(promised, number);
    return is_more;
  };
  for (std::uint32_t left = random.next_below(most_promises); left > 0 && hear(); --left) {
  }
  ::usleep(random.next_below(most_us));
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child left by itself with " << WEXITSTATUS(status);
  while (hear()) {
  }
  ::close(ends[0]);
  return promised;
}

}  // namespace weft::storage
