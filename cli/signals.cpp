// SPDX-License-Identifier: Apache-2.0

#include "cli/signals.hpp"

#include <unistd.h>

#include <csignal>

namespace weft::cli {
namespace {
volatile std::sig_atomic_t noted = 0;

extern "C" void note_signal(int signal) {
  if (noted != 0) _exit(128 + signal);
  noted = signal;
}
}  // namespace

void watch_signals() noexcept {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int noted_signal() noexcept { return noted; }

}  // namespace weft::cli
