// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/arguments.hpp"

#include "scheduler/executor_kind.hpp"

#include <algorithm>

namespace weft::capi {
namespace {

constexpr std::size_t kMostStructBytes = 4096;

Failure is_null(std::string_view what) { return fail(Errc::invalid_argument, std::string(what) + ": NULL"); }

}  // namespace

Result<std::string_view> text_of(const char* text, std::string_view what) {
  if (!text) return is_null(what);
  return std::string_view(text);
}

Status check_array(const void* data, std::size_t count, std::size_t unit, std::size_t alignment,
                   std::string_view what) {
  if (count == 0) return {};
  if (!data) return fail(Errc::invalid_argument, std::string(what) + ": NULL with a count of " + std::to_string(count));
  if (count > PTRDIFF_MAX / unit)
    return fail(Errc::invalid_argument, std::string(what) + ": a count of " + std::to_string(count));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
    return fail(Errc::invalid_argument,
                std::string(what) + ": its address is no multiple of " + std::to_string(alignment) + " bytes");
  return {};
}

Result<ByteSpan> bytes_of(const void* data, std::size_t count, std::string_view what) {
  WEFT_CHECK(check_array(data, count, 1, 1, what));
  return ByteSpan(static_cast<const std::byte*>(data), count);
}

Status read_struct(const void* given, void* own, std::size_t size, std::string_view what) {
  std::memcpy(own, &size, sizeof size);
  if (!given) return {};
  if (reinterpret_cast<std::uintptr_t>(given) % alignof(std::size_t) != 0)
    return fail(Errc::invalid_argument, std::string(what) + ": its address is no multiple of " +
                                            std::to_string(alignof(std::size_t)) + " bytes");
  std::size_t stated = 0;
  std::memcpy(&stated, given, sizeof stated);
  if (stated < sizeof stated || stated > kMostStructBytes)
    return fail(Errc::invalid_argument, std::string(what) + ".size: " + std::to_string(stated) +
                                            "; it is to be set to the size of the struct, " + std::to_string(size));
  const auto* const bytes = static_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min(stated, size), bytes + stated, [](unsigned char byte) { return byte != 0; }))
    return fail(Errc::unsupported, std::string(what) + ": a field is set that this library, which knows " +
                                       std::to_string(size) + " bytes of it, does not have");
  std::memcpy(own, given, std::min(stated, size));
  return {};
}

Result<ShortList<mesh::RunInput>> inputs_of(const weft_input* inputs, std::size_t count) {
  WEFT_TRY(const auto given, array_of(inputs, count, "inputs"));
  ShortList<mesh::RunInput> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    WEFT_TRY(list[i].port, text_of(given[i].name, "inputs: name"));
    WEFT_TRY(list[i].values, array_of(given[i].values, given[i].count, "inputs: values"));
  }
  return list;
}

Result<ShortList<mesh::RunOutput>> outputs_of(const weft_output* outputs, std::size_t count) {
  WEFT_TRY(const auto given, array_of(outputs, count, "outputs"));
  ShortList<mesh::RunOutput> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    WEFT_TRY(list[i].output, text_of(given[i].name, "outputs: name"));
    WEFT_TRY(list[i].values, array_of(given[i].values, given[i].count, "outputs: values"));
  }
  return list;
}

Result<std::size_t> stride_in(const void* array, std::size_t capacity, std::size_t alignment, std::string_view what) {
  WEFT_CHECK(check_array(array, capacity, sizeof(std::size_t), alignment, what));
  if (capacity == 0) return std::size_t{0};
  std::size_t stride = 0;
  std::memcpy(&stride, array, sizeof stride);
  if (stride < sizeof stride || stride > kMostStructBytes || stride % alignment != 0 || capacity > PTRDIFF_MAX / stride)
    return fail(Errc::invalid_argument, std::string(what) + ": " + std::to_string(capacity) + " of " +
                                            std::to_string(stride) + " bytes; the size of the first is that of each");
  return stride;
}

Result<ShortList<learning::Target>> targets_of(const weft_target* targets, std::size_t count) {
  ShortList<learning::Target> list(count);
  if (count == 0) return list;
  if (!targets) return is_null("targets");
  weft_target first{};
  WEFT_CHECK(read_struct(targets, &first, sizeof first, "targets"));
  std::size_t stride = 0;
  std::memcpy(&stride, targets, sizeof stride);
  if (stride % alignof(weft_target) != 0 || count > PTRDIFF_MAX / stride)
    return fail(Errc::invalid_argument,
                "targets: " + std::to_string(count) + " of " + std::to_string(stride) + " bytes");
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const at = reinterpret_cast<const char*>(targets) + i * stride;
    std::size_t stated = 0;
    std::memcpy(&stated, at, sizeof stated);
    if (stated != stride)
      return fail(Errc::invalid_argument, "targets[" + std::to_string(i) + "].size: " + std::to_string(stated) +
                                              "; that of targets[0] is " + std::to_string(stride));
    weft_target given{};
    WEFT_CHECK(read_struct(at, &given, sizeof given, "targets"));
    learning::Target& target = list[i];
    WEFT_TRY(target.output, text_of(given.output, "targets: output"));
    WEFT_TRY(target.labels, array_of(given.labels, given.label_count, "targets: labels"));
    WEFT_TRY(target.values, array_of(given.values, given.value_count, "targets: values"));
    WEFT_TRY(target.gradient, array_of(given.gradient, given.gradient_count, "targets: gradient"));
    WEFT_TRY(target.weights, array_of(given.weights, given.weight_count, "targets: weights"));
  }
  return list;
}

Result<mesh::MeshOptions> mesh_options_of(const weft_mesh_options* options) {
  WEFT_TRY(const weft_mesh_options given, struct_of(options, "mesh options"));
  mesh::MeshOptions made;
  made.threads = given.threads;
  if (given.sessions > 0) made.sessions = given.sessions;
  if (given.executor) {
    const auto kind = scheduler::parse_executor(given.executor);
    if (!kind)
      return fail(Errc::unknown_name, "mesh options: executor '" + std::string(given.executor) +
                                          "' is none of auto, resident, graph, deterministic");
    made.executor = *kind;
  }
  made.executor_seed = given.executor_seed;
  made.device = text_or_empty(given.device);
  made.max_memory = given.max_memory;
  made.pin = given.no_pinning == 0;
  made.keeps_masters = given.no_masters == 0;
  return made;
}

bool is_size_only(std::size_t count, const void* buffer, std::size_t capacity, std::size_t* out_needed,
                  Outcome& outcome) {
  if (out_needed) *out_needed = count;
  if (!buffer && capacity == 0) {
    outcome = out_needed ? Outcome() : report(WEFT_INVALID_ARGUMENT, "no buffer, and no place for its size");
    return true;
  }
  if (!buffer) {
    outcome = report(WEFT_INVALID_ARGUMENT, "buffer: NULL");
    return true;
  }
  if (capacity < count) {
    std::array<char, 96> text{};
    const int size =
        std::snprintf(text.data(), text.size(), "the buffer has room for %zu where %zu are needed", capacity, count);
    outcome = report(WEFT_TOO_SMALL, {text.data(), static_cast<std::size_t>(size)});
    return true;
  }
  return false;
}

Outcome copy_out(const void* data, std::size_t count, std::size_t unit, void* buffer, std::size_t capacity,
                 std::size_t* out_needed) {
  Outcome outcome;
  if (is_size_only(count, buffer, capacity, out_needed, outcome)) return outcome;
  if (count > 0) std::memcpy(buffer, data, count * unit);
  return {};
}

Outcome copy_text(const std::string& text, char* buffer, std::size_t capacity, std::size_t* out_needed) {
  return copy_out(text.c_str(), text.size() + 1, 1, buffer, capacity, out_needed);
}

Status check_out(const void* out, std::string_view what) {
  if (!out) return is_null(what);
  return {};
}

Status give_bytes(const void* own, void* out, std::size_t size, std::string_view what) {
  WEFT_CHECK(check_out(out, what));
  std::size_t stated = 0;
  std::memcpy(&stated, out, sizeof stated);
  if (stated < sizeof stated || stated > kMostStructBytes)
    return fail(Errc::invalid_argument, std::string(what) + ".size: " + std::to_string(stated) +
                                            "; it is to be set to the size of the struct, " + std::to_string(size));
  const std::size_t count = std::min(stated, size) - sizeof stated;
  std::memcpy(static_cast<char*>(out) + sizeof stated, static_cast<const char*>(own) + sizeof stated, count);
  return {};
}

}  // namespace weft::capi
