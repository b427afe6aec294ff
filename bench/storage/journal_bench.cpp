// SPDX-License-Identifier: Apache-2.0
// Cost of a record for the thread that appends it, cost of a commit, and speed of reading and checking a journal.

#include "storage/crc32c.hpp"
#include "storage/journal.hpp"

#include <benchmark/benchmark.h>

#include "bench/directory.hpp"
#include "tests/support/memory_file_system.hpp"
#include <cstring>
#include <string>
#include <vector>

namespace weft::storage {
namespace {

using bench::Directory;

void copy_bytes(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_bytes)->Arg(64)->Arg(3136);

void append(benchmark::State& state) {
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  const Directory directory;
  JournalWriter journal(real_file_system(), directory.path, {});
  for (auto _ : state) {
    benchmark::DoNotOptimize(journal.append(1, payload));
    // As a checkpoint does, so that memory is used again.
    if (journal.waiting_bytes() > 1 << 20) journal.forget(journal.place().number);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(append)->Arg(64)->Arg(3136);

void append_and_commit(benchmark::State& state) {
  const std::vector<std::byte> payload(3136);
  const Directory directory;
  JournalWriter journal(real_file_system(), directory.path, {});
  std::uint64_t count = 0;
  for (auto _ : state) {
    journal.append(1, payload);
    const bool is_last = ++count % 1000 == 0;  // memory is freed by syncs
    if (!journal.commit(state.range(0) != 0 || is_last)) state.SkipWithError("commit failed");
    if (is_last && !prune_journal(real_file_system(), directory.path, journal.synced()))
      state.SkipWithError("prune failed");
  }
  state.SetBytesProcessed(state.iterations() * 3136);
}
BENCHMARK(append_and_commit)->ArgName("sync")->Arg(0)->Arg(1)->UseRealTime();

void read_and_check(benchmark::State& state) {
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  MemoryFileSystem files;
  const bool is_made = files.make_directory("j").has_value();
  JournalWriter journal(files, "j", {});
  while (journal.appended_bytes() < 32 << 20) journal.append(1, payload);
  if (!is_made || !journal.commit(true)) state.SkipWithError("no journal");
  for (auto _ : state)
    benchmark::DoNotOptimize(read_journal(files, "j", {}, [](const JournalRecord&) { return Status(); }));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(journal.appended_bytes()));
}
BENCHMARK(read_and_check)->Arg(64)->Arg(3136)->Unit(benchmark::kMillisecond);

void checksum(benchmark::State& state) {
  const std::vector<std::byte> bytes(std::size_t{1} << 20);
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(checksum);

}  // namespace
}  // namespace weft::storage
