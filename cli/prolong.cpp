// SPDX-License-Identifier: Apache-2.0

#include "cli/prolong.hpp"

#include "agent/checkpointer.hpp"
#include "agent/network_difference.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "storage/checkpoint.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/state_hash.hpp"

namespace weft::cli {
namespace {

void leave_out_samples(Json& network) {
  Json* const stream = network.is_object() ? network.find("stream") : nullptr;
  if (!stream || !stream->is_object() || stream->contains("drift")) return;
  for (const std::string_view key : learning::sample_keys()) stream->erase(std::string(key));
}

}  // namespace

Result<std::optional<std::string>> run_difference(std::string_view stored, std::string_view given) {
  WEFT_TRY(Json there, parse_json(stored, "network"));
  WEFT_TRY(Json here, parse_json(given, "network"));
  leave_out_samples(there);
  leave_out_samples(here);
  WEFT_TRY(const std::string one, write_json(there));
  WEFT_TRY(const std::string other, write_json(here));
  return agent::network_difference(one, other);
}

std::string order_digest(const learning::StreamOptions& options) {
  Json section = *parse_json(learning::write_stream(options), "stream");
  section["has_test"] = !options.test.empty();
  for (const char* const key : {"csv", "epochs", "max_samples", "validation", "test"}) section.erase(key);
  const std::string text = section.dump();
  return to_string(hash_bytes(text.data(), text.size()));
}

Result<std::optional<learning::StreamOptions>> first_stream(const std::string& directory) {
  std::optional<learning::StreamOptions> stream;
  // Opening it says what is wrong.
  if (!storage::check_unoccupied(storage::real_file_system(), directory)) return stream;
  auto store = storage::CheckpointStore::look(storage::real_file_system(), directory);
  if (!store) return stream;
  const auto latest = store->latest();
  if (!latest || !*latest) return stream;
  const auto bytes = (*latest)->file(agent::kAgentFile);
  if (!bytes) return stream;
  const auto file = formats::decode_entity(*bytes, directory);
  if (!file) return stream;
  const auto network = mesh::network_of(*file);
  if (!network || network->stream.empty()) return stream;
  WEFT_TRY(stream, learning::read_stream(network->stream));
  return stream;
}

void inherit_table(const learning::StreamOptions& first, learning::TableOptions& table) {
  if (table.classes.empty()) table.classes = first.table.classes;
  if (table.head_classes.empty()) table.head_classes = first.table.head_classes;
  if (table.fill.empty() && table.missing == first.table.missing) table.fill = first.table.fill;
}

std::string stream_note(const StreamPlace& place) {
  return Json{{"data", place.data}, {"order", place.order}, {"samples", place.next}, {"total", place.total}}.dump();
}

std::optional<StreamPlace> read_stream_note(std::string_view text) {
  const auto document = parse_json(text, "note");
  if (!document) return std::nullopt;
  const auto read = [&]() -> Result<StreamPlace> {
    WEFT_TRY(JsonReader reader, JsonReader::open(*document, "note"));
    StreamPlace place;
    WEFT_TRY(place.data, reader.string("data"));
    WEFT_TRY(place.order, reader.string("order"));
    WEFT_TRY(place.next, reader.u64("samples"));
    WEFT_TRY(place.total, reader.u64("total"));
    return place;
  };
  const auto place = read();
  return place ? std::optional(*place) : std::nullopt;
}

}  // namespace weft::cli
