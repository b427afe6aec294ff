// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/loom/loom_entity.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Files of Loom, made from docs/formats/loom_entity.md.
namespace weft::formats::loom_files {

using Bytes = std::vector<std::byte>;

inline ByteBuffer v1_file(const std::string& header, const Bytes& payload = {}, std::uint16_t version = 1,
                          std::uint16_t flags = 0) {
  ByteBuffer bytes(20 + header.size() + payload.size());
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), "ENTITY\0\0", 8);
  std::memcpy(bytes.data() + 8, &version, 2);
  std::memcpy(bytes.data() + 10, &flags, 2);
  std::memcpy(bytes.data() + 12, &length, 8);
  std::memcpy(bytes.data() + 20, header.data(), header.size());
  if (!payload.empty()) std::memcpy(bytes.data() + 20 + header.size(), payload.data(), payload.size());
  return bytes;
}

template <class T>
Bytes raw(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// A network on a grid of one cell, with its layers one above the other.
struct V1Model {
  Json layers = Json::array(), blobs = Json::array(), transformer;
  Bytes payload;

  V1Model& layer(std::string type, Json keys = Json::object()) {
    Json row{{"z", 0},
             {"y", 0},
             {"x", 0},
             {"l", layers.size()},
             {"type", std::move(type)},
             {"activation", "Linear"},
             {"dtype", "float32"},
             {"softmax_type", "Standard"}};
    row.update(keys);
    layers.push_back(std::move(row));
    return *this;
  }
  /// Of the layer added last.
  V1Model& weights(const Bytes& bytes, const std::string& dtype, float scale = 1.0f, bool native = true) {
    blobs.push_back({{"path", "layers." + std::to_string(layers.size() - 1)},
                     {"offset", payload.size()},
                     {"length", bytes.size()},
                     {"dtype", dtype},
                     {"scale", scale},
                     {"native", native}});
    payload.insert(payload.end(), bytes.begin(), bytes.end());
    return *this;
  }
  V1Model& weights(const std::vector<float>& values) { return weights(raw(values), "float32"); }

  Json header() const {
    Json header{{"format_version", 1},
                {"network",
                 {{"id", "network"},
                  {"depth", 1},
                  {"rows", 1},
                  {"cols", 1},
                  {"layers_per_cell", layers.size()},
                  {"layers", layers}}},
                {"blobs", blobs}};
    if (!transformer.is_null()) header["transformer"] = transformer;
    return header;
  }
  ByteBuffer encode() const { return v1_file(header().dump(), payload); }
};

/// Numbers that tests/data/formats/make_loom_goldens.py makes by the same formula.
inline std::vector<float> golden_weights(const Json& blob) {
  std::vector<float> values(blob["count"].get<std::size_t>());
  const auto seed = blob["seed"].get<std::size_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>((37 * i + 11 * seed) % 29) - 14.0f) / 16.0f;
  if (const Json* const zeros = blob.find("zeros"))
    for (const Json& range : *zeros)
      std::fill(values.begin() + range[0].get<std::ptrdiff_t>(), values.begin() + range[1].get<std::ptrdiff_t>(), 0.0f);
  return values;
}

inline void put_word(Bytes& bytes, std::uint32_t word) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(word >> 8 * i));
}
inline void put_number(Bytes& bytes, float number) { put_word(bytes, std::bit_cast<std::uint32_t>(number)); }

/// Blocks of 32 codes of 4 bits, the first in a byte's low half, padded to a multiple of 64 words, 512 at least.
inline Bytes golden_blocks(const Json& blob) {
  const std::size_t count = blob["count"].get<std::size_t>(), seed = blob["seed"].get<std::size_t>();
  const std::size_t blocks = (count + 31) / 32, words = std::max<std::size_t>(512, (4 * blocks + 63) / 64 * 64);
  Bytes bytes;
  put_word(bytes, static_cast<std::uint32_t>(blocks)), put_word(bytes, static_cast<std::uint32_t>(words));
  for (std::size_t b = 0; b < blocks; ++b) put_number(bytes, static_cast<float>(1 + b % 5) / 64.0f);
  const std::size_t first = bytes.size();
  bytes.resize(first + 4 * words);
  for (std::size_t i = 0; i < count; ++i) {
    const int code = static_cast<int>((37 * i + 11 * seed) % 15) - 7;
    bytes[first + i / 2] |= static_cast<std::byte>((code & 15) << i % 2 * 4);
  }
  return bytes;
}

/// Rows of words of 16 ternary codes.
inline Bytes golden_ternary(const Json& blob) {
  const std::size_t rows = blob["rows"].get<std::size_t>(), cols = blob["cols"].get<std::size_t>(),
                    seed = blob["seed"].get<std::size_t>(), row_words = (cols + 15) / 16;
  Bytes bytes;
  put_word(bytes, static_cast<std::uint32_t>(rows)), put_word(bytes, static_cast<std::uint32_t>(cols));
  put_word(bytes, blob["offset"].get<std::uint32_t>());
  put_number(bytes, 3.0f / 64.0f);
  put_word(bytes, static_cast<std::uint32_t>(row_words)), put_word(bytes, static_cast<std::uint32_t>(rows * row_words));
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t w = 0; w < row_words; ++w) {
      std::uint32_t word = 0;
      for (std::size_t c = 16 * w; c < std::min(cols, 16 * w + 16); ++c)
        word |= static_cast<std::uint32_t>((37 * (r * cols + c) + 11 * seed) % 3) << c % 16 * 2;
      put_word(bytes, word);
    }
  return bytes;
}

/// The file of a case of loom_goldens.json.
inline V1Model golden_model(const Json& golden) {
  V1Model model;
  for (const Json& layer : golden["layers"]) model.layers.push_back(layer);
  for (const Json& blob : golden["blobs"]) {
    const std::string form = blob.get_or("form", std::string("numbers"));
    const Bytes bytes = form == "blocks"    ? golden_blocks(blob)
                        : form == "ternary" ? golden_ternary(blob)
                                            : raw(golden_weights(blob));
    model.weights(bytes, form == "blocks" ? "Q4_0" : form == "ternary" ? "BITNET_TERNARY" : "float32");
    model.blobs.back()["path"] = blob["path"];
  }
  if (const Json* const section = golden.find("transformer")) model.transformer = *section;
  return model;
}

inline Result<LoomEntityFile> decode_v1(ByteBuffer bytes, std::string_view source = "v1") {
  return decode_loom_entity(storage::MappedFile(std::move(bytes)), source);
}

}  // namespace weft::formats::loom_files
