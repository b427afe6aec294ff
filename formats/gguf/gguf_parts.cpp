// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_parts.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/internal/gguf_layout.hpp"
#include "formats/internal/parts.hpp"
#include "formats/joined_tensor_file.hpp"

#include "core/printable.hpp"
#include "core/shape.hpp"

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>

namespace weft::formats {
namespace {

constexpr std::string_view kNumber = "split.no", kCount = "split.count", kTensors = "split.tensors.count";
constexpr std::string_view kEnding = ".gguf", kBetween = "-of-";
constexpr std::uint64_t kMostParts = UINT16_MAX;
constexpr std::size_t kDigits = 5, kMostTold = 20;

/// Keys of a file about the parts that it is one of.
struct SplitKeys {
  std::uint64_t number = 0, count = 1;  // parts count from 0 here, as in the file
  std::optional<std::uint64_t> tensors;
};
Result<SplitKeys> split_keys(const GgufMetadata& metadata) {
  SplitKeys keys;
  WEFT_TRY(keys.number, metadata.natural_or(kNumber, 0, kMostParts));
  WEFT_TRY(keys.count, metadata.natural_or(kCount, 1, kMostParts));
  if (metadata.contains(kTensors)) {
    WEFT_TRY(keys.tensors, metadata.natural(kTensors, gguf::kMaxTensors));
  }
  return keys;
}

std::string told_value(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, GgufArray>)
          return type_name(held) + ", " + std::to_string(size(held)) + " elements";
        else if constexpr (std::is_same_v<Held, std::string>)
          return in_quotes(held);
        else
          return std::to_string(held);
      },
      value);
}

/// Parts of a model while they are opened and compared; all that is wrong is told at once.
class PartsReader {
 public:
  PartsReader(storage::FileSystem& files, GgufPartName name) : files_(files), name_(std::move(name)) {}

  Result<GgufModel> read(const std::string& path, GgufFile named, const SplitKeys& keys) && {
    tensors_wanted_ = keys.tensors;
    for (std::uint32_t number = 1; number <= name_.count; ++number) {
      const std::string part = name_.path(number);
      auto file = number == name_.number ? Result<GgufFile>(named) : load_gguf(files_, part);
      paths_.push_back(number == name_.number ? path : part);
      if (file)
        add(*std::move(file), number);
      else
        refuse(file.error().code(), file.error().text());
    }
    if (problems_.empty() && tensors_wanted_ && *tensors_wanted_ != holders_.size())
      refuse(Errc::corrupt, path + ": " + std::string(kTensors) + " is " + std::to_string(*tensors_wanted_) +
                                ", the parts have " + std::to_string(holders_.size()) + " tensors");
    if (!problems_.empty()) return fail(code_, told(path));
    std::vector<std::shared_ptr<const TensorFile>> all(parts_.begin(), parts_.end());
    WEFT_TRY(JoinedTensorFile joined, JoinedTensorFile::join(std::move(all)));
    return GgufModel{*parts_.front(), std::make_shared<const JoinedTensorFile>(std::move(joined)), std::move(paths_)};
  }

 private:
  void refuse(Errc code, std::string text) {
    if (problems_.empty()) code_ = code;
    problems_.push_back(std::move(text));
  }
  std::string told(const std::string& path) const {
    std::string text = path + ": part " + std::to_string(name_.number) + " of " + std::to_string(name_.count);
    for (std::size_t i = 0; i < std::min(problems_.size(), kMostTold); ++i) text += "; " + problems_[i];
    if (problems_.size() > kMostTold) text += "; and " + std::to_string(problems_.size() - kMostTold) + " more";
    return text;
  }

  void add(GgufFile file, std::uint32_t number) {
    const std::string path = paths_.back();
    if (const auto keys = split_keys(file.metadata()); !keys)
      refuse(keys.error().code(), path + ": " + keys.error().text());
    else
      compare(*keys, path, number);
    for (const Tensor& tensor : file.tensors())
      if (const auto [held, is_new] = holders_.emplace(tensor.name, number); !is_new)
        refuse(Errc::duplicate_name,
               "tensor '" + printable(tensor.name) + "' is in " + name_.path(held->second) + " and in " + path);
    parts_.push_back(std::make_shared<const GgufFile>(std::move(file)));
    has_first_ = has_first_ || number == 1;
    if (number != 1 && has_first_) compare_metadata(path);
  }
  void compare(const SplitKeys& keys, const std::string& path, std::uint32_t number) {
    const auto differs = [&](std::string_view key, std::uint64_t found, std::uint64_t expected) {
      if (found != expected)
        refuse(Errc::corrupt, path + ": " + std::string(key) + " is " + std::to_string(found) + ", expected " +
                                  std::to_string(expected));
    };
    differs(kNumber, keys.number, number - 1);
    differs(kCount, keys.count, name_.count);
    if (!tensors_wanted_) tensors_wanted_ = keys.tensors;
    if (keys.tensors) differs(kTensors, *keys.tensors, *tensors_wanted_);
  }
  /// Keys of the last part against those of the first.
  void compare_metadata(const std::string& path) {
    for (const auto& [key, value] : parts_.back()->metadata().pairs()) {
      if (key.starts_with("split.") || key == gguf::kAlignmentKey) continue;
      const GgufValue* const wanted = parts_.front()->metadata().find(key);
      if (!wanted || *wanted != value)
        refuse(Errc::corrupt, path + ": " + in_quotes(key) + " is " + told_value(value) + ", the first part has " +
                                  (wanted ? told_value(*wanted) : "no such key"));
    }
  }

  storage::FileSystem& files_;
  GgufPartName name_;
  std::optional<std::uint64_t> tensors_wanted_;
  std::vector<std::shared_ptr<const GgufFile>> parts_;
  std::vector<std::string> paths_;
  std::unordered_map<std::string, std::uint32_t> holders_;  // the part of each tensor
  std::vector<std::string> problems_;
  bool has_first_ = false;
  Errc code_ = Errc::corrupt;  // of the first problem
};

/// Bytes of a tensor in the file; of one that gguf_source refuses, any.
std::uint64_t stored_bytes(const Tensor& tensor) {
  const auto type = find_gguf_type(tensor.type);
  const auto elements = volume(tensor.shape);
  return type && elements ? *elements / type->elements * type->bytes : 0;
}

}  // namespace

std::string GgufPartName::path(std::uint32_t of_number) const {
  char text[32];
  std::snprintf(text, sizeof text, "-%05u-of-%05u.gguf", of_number, count);
  return prefix + text;
}

std::optional<GgufPartName> gguf_part_name(std::string_view path) {
  constexpr std::size_t kSize = 1 + kDigits + kBetween.size() + kDigits + kEnding.size();
  if (path.size() <= kSize || !path.ends_with(kEnding)) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kSize);
  const std::string_view number = end.substr(1, kDigits), count = end.substr(1 + kDigits + kBetween.size(), kDigits);
  const auto is_digits = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (end[0] != '-' || end.substr(1 + kDigits, kBetween.size()) != kBetween || !is_digits(number) || !is_digits(count))
    return std::nullopt;
  const auto value = [](std::string_view text) { return static_cast<std::uint32_t>(std::stoul(std::string(text))); };
  GgufPartName name{std::string(path.substr(0, path.size() - kSize)), value(number), value(count)};
  if (name.number == 0 || name.number > name.count) return std::nullopt;
  return name;
}

Result<GgufModel> load_gguf_model(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(GgufFile named, load_gguf(files, path));
  auto keys = split_keys(named.metadata());
  if (!keys) return fail(std::move(keys).error().within(path));
  if (keys->count <= 1) {
    auto tensors = std::make_shared<const GgufFile>(named);
    return GgufModel{std::move(named), std::move(tensors), {path}};
  }
  GgufPartName wanted{"...", static_cast<std::uint32_t>(keys->number + 1), static_cast<std::uint32_t>(keys->count)};
  auto name = gguf_part_name(path);
  if (keys->number >= keys->count)
    return fail(Errc::corrupt, path + ": split.no is " + std::to_string(keys->number) + ", split.count is " +
                                   std::to_string(keys->count) + "; numbers begin at 0 and are less than the count");
  if (!name || name->number != wanted.number || name->count != wanted.count)
    return fail(Errc::corrupt, path + ": split.no and split.count say that it is part " +
                                   std::to_string(wanted.number) + " of " + std::to_string(wanted.count) +
                                   ", so its name must be " + wanted.path(wanted.number) +
                                   ", and the other parts must lie beside it");
  return PartsReader(files, *std::move(name)).read(path, std::move(named), *keys);
}

Result<std::vector<ByteSource>> gguf_part_sources(GgufMetadata metadata, std::vector<Tensor> tensors,
                                                  std::uint64_t most_bytes) {
  const std::size_t total = tensors.size();
  std::vector<std::vector<Tensor>> parts = parts_of(std::move(tensors), most_bytes, stored_bytes);
  if (parts.size() > kMostParts)
    return fail(Errc::too_large, std::to_string(parts.size()) + " parts of at most " + std::to_string(most_bytes) +
                                     " bytes, a GGUF file has at most " + std::to_string(kMostParts));
  std::vector<ByteSource> sources;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    GgufMetadata own = i == 0 ? std::move(metadata) : GgufMetadata();
    if (parts.size() > 1) {
      own.set(std::string(kNumber), static_cast<std::uint16_t>(i));
      own.set(std::string(kCount), static_cast<std::uint16_t>(parts.size()));
      own.set(std::string(kTensors), static_cast<std::int32_t>(total));
    }
    WEFT_TRY(ByteSource source, gguf_source(std::move(own), std::move(parts[i])));
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace weft::formats
