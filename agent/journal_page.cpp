// SPDX-License-Identifier: Apache-2.0

#include "agent/journal_page.hpp"

#include "agent/internal/data_directory.hpp"
#include "agent/record_source.hpp"

#include <algorithm>
#include <type_traits>

namespace weft::agent {
namespace {

JournalEntry entry_of(const RecordSource::Item& item) {
  JournalEntry entry;
  entry.number = item.number;
  entry.bytes = item.payload.size();
  const auto record = read_record(item.kind, item.payload);
  if (!record) return entry;  // of a later version: its number and size are known
  entry.kind = static_cast<RecordKind>(item.kind);
  std::visit(
      [&entry](const auto& each) {
        using Kind = std::remove_cvref_t<decltype(each)>;
        if constexpr (std::is_same_v<Kind, TicksRecord>) entry.count = each.ticks;
        if constexpr (std::is_same_v<Kind, LearnRecord>) entry.count = each.samples;
        if constexpr (std::is_same_v<Kind, ActRecord>) entry.count = each.steps;
        if constexpr (std::is_same_v<Kind, MarkerRecord> || std::is_same_v<Kind, CheckpointRecord>)
          entry.tick = each.tick;
        if constexpr (std::is_same_v<Kind, AnnotationRecord>) entry.topic = each.topic;
      },
      *record);
  return entry;
}

/// The place of the newest checkpoint before record `from`, else of the oldest one: nothing before it can be read.
Result<storage::JournalPlace> place_before(storage::CheckpointStore& store, std::uint64_t from) {
  std::vector<storage::CheckpointKey> keys = store.keys();
  if (keys.empty()) return fail(Errc::not_found, store.directory() + ": no agent is there: it has no checkpoint");
  const auto is_before = [from](const storage::CheckpointKey& key) { return key.record < from; };
  const auto found = std::find_if(keys.rbegin(), keys.rend(), is_before);
  WEFT_TRY(const auto checkpoint, store.at(found == keys.rend() ? keys.front() : *found));
  WEFT_TRY(const auto content, internal::read_checkpoint(checkpoint));
  return content.place;
}

}  // namespace

Result<JournalPage> read_journal_page(storage::FileSystem& files, const std::string& directory, std::uint64_t from,
                                      std::size_t most) {
  WEFT_TRY(auto store, storage::CheckpointStore::look(files, directory));
  WEFT_TRY(const storage::JournalPlace place, place_before(store, from));
  RecordSource source(files, internal::journal_in(directory), place);
  WEFT_CHECK(source.end_here());
  JournalPage page;
  while (true) {
    WEFT_TRY(const RecordSource::Item* const item, source.next());
    if (!item) break;
    if (item->number < from) continue;
    if (page.entries.size() == most) {
      page.next = item->number;
      break;
    }
    page.entries.push_back(entry_of(*item));
  }
  page.torn_bytes = source.findings().torn_bytes;
  page.damages = source.findings().damages;
  return page;
}

Status copy_checkpoint(storage::FileSystem& files, const std::string& from, std::uint64_t tick, const std::string& to) {
  WEFT_TRY(auto store, storage::CheckpointStore::look(files, from));
  const auto keys = store.keys();
  const auto is_of_tick = [tick](const storage::CheckpointKey& key) { return key.tick == tick; };
  const auto key = std::find_if(keys.rbegin(), keys.rend(), is_of_tick);
  if (key == keys.rend()) return fail(Errc::not_found, from + ": no checkpoint of tick " + std::to_string(tick));
  WEFT_TRY(const auto checkpoint, store.at(*key));
  std::vector<storage::NamedBytes> copies;
  for (const auto& [name, file] : checkpoint.files) copies.push_back({name, ByteSource(file.bytes())});
  WEFT_TRY(auto made, storage::CheckpointStore::open(files, to));
  WEFT_CHECK(made.write(*key, copies, *checkpoint.info));
  for (const auto& [_, file] : checkpoint.files) WEFT_CHECK(file.intact());
  return {};
}

}  // namespace weft::agent
