// SPDX-License-Identifier: Apache-2.0

#include "cli/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace weft::cli {
namespace {

// Handlers run on any thread.
std::atomic<int> noted{0};
std::atomic<bool> hung_up{false}, interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void note_signal(int signal) {
  int none = 0;
  if (!noted.compare_exchange_strong(none, signal)) _exit(128 + signal);
}
extern "C" void note_hangup(int) { hung_up.store(true); }
extern "C" void note_interrupt(int) { interrupted.store(true); }

void handle(int signal, void (*handler)(int)) noexcept {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_signals() noexcept {
  handle(SIGINT, note_signal);
  handle(SIGTERM, note_signal);
  handle(SIGPIPE, SIG_IGN);
}

int noted_signal() noexcept { return noted.load(); }
const std::atomic<int>& signal_flag() noexcept { return noted; }

void watch_interrupts() noexcept { handle(SIGINT, note_interrupt); }
bool is_interrupted() noexcept { return interrupted.load(); }
void forget_interrupt() noexcept { interrupted.store(false); }

void watch_hangups() noexcept { handle(SIGHUP, note_hangup); }
bool take_hangup() noexcept { return hung_up.exchange(false); }

}  // namespace weft::cli
